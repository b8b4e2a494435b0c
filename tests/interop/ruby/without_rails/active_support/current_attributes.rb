# What Sidekiq 6 needs of Rails' class of this name, where Rails is not installed: attributes of the current thread.
module ActiveSupport
  class CurrentAttributes
    class << self
      def attribute(*names)
        names.each { |name| define_singleton_method(name) { attributes[name] } }
      end

      def attributes = Thread.current[:current_attributes] ||= {}

      def set(values)
        before = attributes
        Thread.current[:current_attributes] = before.merge(values.transform_keys(&:to_sym))
        yield
      ensure
        Thread.current[:current_attributes] = before
      end
    end
  end
end
