# Dumps what a real Sidekiq 8 stores; called by dump_sidekiq_payloads.py, which gives it a server of its own.
# Clock, jids, chance and backtraces are injected, so that each run writes the same bytes.
require "json"
require "securerandom"

NOW = 1795216780.652
module Process
  singleton_class.alias_method :real_clock_gettime, :clock_gettime
  def self.clock_gettime(id, unit = :float_second)
    return real_clock_gettime(id, unit) unless id == CLOCK_REALTIME
    unit == :millisecond ? (NOW * 1000).round : NOW
  end
end
def Time.now(...) = at(NOW)
module SecureRandom
  @count = 0
  def self.hex(bytes = 16) = (@count += 1).to_s.rjust(2 * bytes, "0")
  def self.uuid = format("00000000-0000-4000-8000-%012d", @count += 1)
end
srand(8)

require "sidekiq/cli" # then this process counts as a server, whose processor runs jobs below
require "sidekiq/api"
require "active_job"
require "active_support/all"
require "sidekiq/middleware/current_attributes"
require "active_job/queue_adapters/sidekiq_adapter"

CONFIG = Sidekiq.default_configuration
CONFIG.redis = {url: ENV.fetch("REDIS_URL")}
CONFIG.logger.level = Logger::UNKNOWN
CONFIG.error_handlers.clear
CONFIG[:backtrace_cleaner] = ->(_lines) { ["app/jobs/é.rb:3:in `perform'", "app/jobs/base.rb:9:in `call'"] }
ActiveJob::Base.queue_adapter = :sidekiq
ActiveJob::Base.logger = nil
Time.zone = "Europe/Berlin"
GlobalID.app = "shop"

# ------------------------------------------------------------------------------------------ what is dumped
DUMP = {}

# All that a block stores; the queues and sets are empty again afterwards.
def dump(name)
  yield
  DUMP[name] = Sidekiq.redis do |redis|
    queued = redis.smembers("queues").sort.flat_map do |queue|
      redis.lrange("queue:#{queue}", 0, -1).reverse.map { |raw| {key: "queue:#{queue}", raw: raw} }
    end
    sorted = %w[schedule retry dead].flat_map do |set|
      redis.zrange(set, 0, -1, "withscores").map { |raw, score| {key: set, score: score, raw: raw} }
    end
    redis.call("FLUSHALL")
    queued + sorted
  end
end

# Let Sidekiq's own processor run the only job of the queue "default".
def work
  capsule = CONFIG.default_capsule
  capsule.queues = %w[default]
  Sidekiq::Processor.new(capsule).send(:process_one)
rescue RuntimeError
  nil # the job's own, which the processor raises once it is stored
end

def retry_now
  raw = Sidekiq.redis { |redis| redis.zpopmin("retry").flatten.first }
  Sidekiq::Client.push(Sidekiq.load_json(raw))
  work
end

class NoopJob
  include Sidekiq::Job
  def perform(*) = nil
end

class FailJob
  include Sidekiq::Job
  def perform(*) = raise("boom é <b>x</b>")
end

class Welcome < ActiveJob::Base
  sidekiq_options retry: 3
  def perform(*) = raise("no mail server")
end

class User
  include GlobalID::Identification
  def id = 7
end

# ----------------------------------------------------------------------------------------------- the cases
dump("push") { NoopJob.perform_async(1, "two", {"a" => [1.5, nil]}) }
dump("perform_in") { NoopJob.perform_in(3600, "in") }
dump("push_bulk") { Sidekiq::Client.push_bulk("class" => NoopJob, "args" => [[1], [2]]) }
dump("push_bulk with batch_size") { Sidekiq::Client.push_bulk("class" => NoopJob, "args" => [[1], [2], [3]], "batch_size" => 2) }
dump("push_bulk with at") { Sidekiq::Client.push_bulk("class" => NoopJob, "args" => [[1], [2]], "at" => [NOW + 5, NOW + 6.25]) }
dump("push_bulk with spread_interval") do
  Sidekiq::Client.push_bulk("class" => NoopJob, "args" => [[1], [2], [3]], "spread_interval" => 60)
end

# Options as Ruby writes them, or as its users do: each of these jobs runs in Ruby.
{
  "log_level" => [:warn, "fatal", 0, 2], "retry" => ["5", 2.5, nil], "backtrace" => ["10"], "dead" => ["false", nil],
  "retry_for" => [3600.0], "jid" => [12345], "tags" => [nil, %w[a b]], "kwargs" => [nil, "x"], "soft_timeout" => ["none"],
  "hard_timeout" => [{}], "interrupted_count" => ["2"], "signature" => [5], "retry_queue" => [nil]
}.each do |key, values|
  values.each do |value|
    dump("#{key}: #{value.inspect}") { Sidekiq::Client.push("class" => "NoopJob", "args" => [], key => value) }
  end
end
dump("set log_level") { NoopJob.set(log_level: :error).perform_async }
dump("queue: null") do # as other programs may write it, and as Ruby's worker runs it: its client refuses it
  raw = Sidekiq.dump_json("class" => "NoopJob", "args" => [], "queue" => nil, "jid" => SecureRandom.hex(12))
  Sidekiq.redis { |redis| redis.sadd("queues", ["default"]) && redis.lpush("queue:default", raw) }
end

# Failures
dump("failed once") { FailJob.set(retry: 3, backtrace: true).perform_async("f") && work }
dump("failed twice") { FailJob.set(retry: 3, backtrace: 1).perform_async("f") && work && nil || retry_now }
dump("failed with an odd retry and backtrace") do
  FailJob.set("retry" => "5", "backtrace" => "1").perform_async
  work
end
dump("failed to another queue") { FailJob.set(retry_queue: "low").perform_async && work }
dump("dead at once") { FailJob.set(retry: 0).perform_async && work }
dump("dead after a retry") { FailJob.set(retry: 1).perform_async && work && nil || retry_now }
dump("killed by hand") do
  FailJob.perform_in(60, "k")
  Sidekiq::ScheduledSet.new.first.kill
end
dump("no JSON, dead") do
  Sidekiq.redis { |redis| redis.lpush("queue:default", "not json{") }
  work
end

# ActiveJob
dump("active_job") { Welcome.perform_later(7, :now, at: Time.at(NOW).utc) }
dump("active_job in an hour") { Welcome.set(wait: 3600, queue: "mailers").perform_later("é") }
dump("active_job in bulk") { ActiveJob.perform_all_later(Welcome.new(1), Welcome.new(2)) }
dump("active_job failed") { Welcome.perform_later(1) && work }

# CurrentAttributes
class Current < ActiveSupport::CurrentAttributes
  attribute :user_id, :role, :since, :value, :options, :tags, :owner
end

class Tenant < ActiveSupport::CurrentAttributes
  attribute :slug
end

Sidekiq::CurrentAttributes.persist(%w[Current Tenant])
VALUES = {
  "integer" => 7,
  "big integer" => 2**70,
  "float" => 1.5,
  "string" => "é \u{1f600}",
  "nil" => nil,
  "true" => true,
  "symbol" => :admin,
  "time" => Time.utc(2026, 11, 22, 6, 30, 19.123456789r),
  "time with an offset" => Time.new(2026, 11, 22, 6, 30, 19.5r, "+05:30"),
  "time with zone" => ActiveSupport::TimeZone["Europe/Berlin"].at(NOW),
  "datetime" => DateTime.new(2026, 11, 22, 6, 30, 19.25r, "-03:00"),
  "date" => Date.new(2026, 11, 22),
  "duration" => 90.minutes,
  "duration in months" => 1.month + 1.day,
  "decimal" => BigDecimal("12.340"),
  "small decimal" => BigDecimal("-0.00000123"),
  "range" => (1...5),
  "range of dates" => (Date.new(2026, 11, 1)..Date.new(2026, 11, 22)),
  "module" => NoopJob,
  "record" => User.new,
  "array" => [1, :two, [Date.new(2026, 1, 2)]],
  "hash with symbol keys" => {a: 1, b: {c: :d}},
  "hash with string keys" => {"a" => 1, "when" => Date.new(2026, 1, 2)},
  "hash with both" => {:a => 1, "b" => 2},
  "hash with indifferent access" => {a: 1}.with_indifferent_access
}
VALUES.each do |name, value|
  dump("cattr: #{name}") { Current.set(value: value) { NoopJob.perform_async } }
end
dump("cattr: several attributes of two classes") do
  Current.set(user_id: 7, role: :admin, since: Date.new(2026, 1, 2), tags: %w[a b]) do
    Tenant.set(slug: "acme") { NoopJob.perform_async }
  end
end
dump("cattr: failed once") { Current.set(user_id: 7) { FailJob.perform_async("c") && work } }
dump("cattr: active_job") { Current.set(user_id: 7) { Welcome.perform_later } }

puts JSON.pretty_generate(sidekiq: Sidekiq::VERSION, activejob: ActiveJob.version.to_s, now: NOW, stored: DUMP)
