# The jobs that live in Ruby. Loaded by the sidekiq process and by the console of the tests.
require "json"
require "sidekiq"
require "sidekiq/api"
begin
  require "active_job"
  require "active_support/all"
rescue LoadError # Debian's Sidekiq comes without Rails
  $LOAD_PATH.unshift(File.join(__dir__, "without_rails"))
end
require "sidekiq/middleware/current_attributes"

url = ENV.fetch("REDIS_URL")
Sidekiq.configure_server { |c| c.redis = {url: url} }
Sidekiq.configure_client { |c| c.redis = {url: url} }
Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=)

# A setting of Sidekiq itself: it then starts to poll within 5 seconds of its boot in place of 15.
Sidekiq.configure_server { |c| (c.respond_to?(:options) ? c.options : c)[:poll_interval_average] = 0.2 }

# What ran where: the list seen:<jid> holds [language, arguments, retry_count] of each run.
class Recorded
  def call(_worker, job, _queue)
    seen = ["ruby", job["args"], job["retry_count"]]
    Sidekiq.redis { |c| c.rpush("seen:#{job["jid"]}", JSON.generate(seen)) }
    yield
  end
end
Sidekiq.configure_server { |c| c.server_middleware { |chain| chain.add Recorded } }

class Current < ActiveSupport::CurrentAttributes
  attribute :user_id, :role, :since, :lasts, :price, :options
end
Sidekiq::CurrentAttributes.persist(Current)

# Notes the class and text of each current attribute that it sees.
class RubyTellsCurrent
  include Sidekiq::Job
  sidekiq_options queue: "ruby"

  def perform(of = jid)
    told = Current.attributes.transform_values { |value| [value.class.name, value.inspect] }
    Sidekiq.redis { |c| c.set("current:#{of}:ruby", JSON.generate(told)) }
  end
end

class RubyEcho
  include Sidekiq::Job
  sidekiq_options queue: "ruby"
  def perform(*) = nil
end

# Declared in both languages, and fails in both: its tries go from one side to the other by retry_queue.
class FailsEverywhere
  include Sidekiq::Job
  sidekiq_options queue: "ruby", backtrace: true, retry: 3
  def perform(*) = raise(ArgumentError, "boom é <b>x</b> from Ruby")
end

class RubySleep
  include Sidekiq::Job
  sidekiq_options queue: "ruby"
  def perform(seconds, *) = sleep(seconds)
end

# Declared in both languages: each continues at the cursor where the other has stopped.
if defined?(Sidekiq::IterableJob)
  class Elements
    include Sidekiq::IterableJob
    sidekiq_options queue: "elements"

    def build_enumerator(count, pause, cursor:)
      ((cursor || 0)...count).each.lazy.map { |number| [number, number] }.to_enum
    end

    def each_iteration(number, _count, pause)
      Sidekiq.redis { |c| c.rpush("elements:#{jid}", "ruby #{number}") }
      sleep pause
    end
  end
end
