# Runs Ruby that the tests send: a line [code, {name: value}] in, a line [result, error] out.
answers = $stdout.dup
$stdout.reopen($stderr) # what Sidekiq logs must not be taken for an answer
require_relative "app"

while (line = $stdin.gets)
  code, given = JSON.parse(line)
  scope = TOPLEVEL_BINDING.dup
  given.each { |name, value| scope.local_variable_set(name, value) }
  begin
    answer = [scope.eval(code), nil]
  rescue Exception => error # also a NoMethodError or a SyntaxError belongs to the test that sent the code
    answer = [nil, "#{error.class}: #{error.message}"]
  end
  answers.puts(JSON.generate(answer))
  answers.flush
end
