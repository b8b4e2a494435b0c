# The producer in Ruby; the words are those of drive.py.
require "json"
require_relative "sidekiq_app"

WARM = 50

def push(numbers)
  numbers.each { |number| Noop.perform_async(number, "two", 3) }
end

def push_bulk(numbers)
  numbers.each_slice(1000) do |batch|
    Sidekiq::Client.push_bulk("class" => Noop, "args" => batch.map { |number| [number, "two", 3] })
  end
end

def timed(count)
  wall = Probe.now
  cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
  yield
  seconds = (Probe.now - wall) / 1e9
  { rate: count / seconds, producer_cpu_us: (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu) / count * 1e6 }
end

def push_after(seconds, number)
  sleep seconds
  Probe.pushed(number)
  push([number])
end

def latency(count, gap)
  push_after(0, 0)
  6000.times { Probe.ended?(0) ? break : sleep(0.01) }
  sleep 0.5
  (1..count).each { |number| push_after(gap, number) }
  push_after(3, count + 1)
end

word, count = ARGV[0], ARGV[1].to_i
figures = {}
case word
when "fill" then push_bulk(0...count)
when "latency" then latency(count, ARGV[2].to_f / 1000)
when "push"
  push(0...WARM)
  figures = timed(count) { push(0...count) }
else
  push_bulk(0...WARM)
  figures = timed(count) { push_bulk(0...count) }
end
puts JSON.generate(figures)
