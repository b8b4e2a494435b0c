# Sidekiq: the job, and what it notes in the mapped file (as probe.py does, and as cheaply).
Warning[:experimental] = false # IO::Buffer, which maps a file in Ruby 3.1
require "sidekiq"
# Else the gem that Sidekiq 6 uses warns at each push.
Redis.sadd_returns_boolean = false if defined?(Redis) && Redis.respond_to?(:sadd_returns_boolean=)

Sidekiq.configure_client { |config| config.redis = { url: ENV["REDIS_URL"] } }
Sidekiq.configure_server { |config| config.redis = { url: ENV["REDIS_URL"] } }
Sidekiq.logger.level = Logger::WARN unless ENV["BENCH_LOG"] == "info"

module Probe
  SIZE = 48
  SLOTS = IO::Buffer.map(File.open(ENV["BENCH_SLOTS"], "r+b"))
  SECONDS = ENV.fetch("BENCH_JOB_MS", "0").to_f / 1000
  WORKER = Process.pid

  def self.now
    Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
  end

  def self.pushed(number)
    SLOTS.set_value(:s64, number * SIZE, now)
  end

  def self.ended?(number)
    SLOTS.get_value(:s64, number * SIZE + 16) != 0
  end

  def self.run(number)
    at = number * SIZE
    SLOTS.set_value(:s64, at + 8, now)
    SLOTS.set_value(:s64, at + 24, SLOTS.get_value(:s64, at + 24) + 1)
    SLOTS.set_value(:s64, at + 40, WORKER)
    sleep SECONDS if SECONDS > 0
    SLOTS.set_value(:s64, at + 16, now)
    SLOTS.set_value(:s64, at + 32, SLOTS.get_value(:s64, at + 32) + 1)
  end
end

class Noop
  include Sidekiq::Worker

  def perform(number, *_rest)
    Probe.run(number)
  end
end
