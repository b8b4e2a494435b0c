# Sidekiq's own pages, as its wiki mounts them in a bare Rack application.
require_relative "app"
require "sidekiq/web"
require "rack/session" if Gem::Version.new(Rack.release) >= Gem::Version.new("3")

use Rack::Session::Cookie, secret: "only for tests " * 5, same_site: true, max_age: 86400
run Sidekiq::Web
