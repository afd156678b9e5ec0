#include "talosctl/report/capture.h"

#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/client/cluster-client.h"

namespace talos::talosctl {
namespace {

constexpr size_t kMostBytes = 32u << 20;

class CapturingConsole final : public Console {
 public:
  void write(Stream stream, kj::ArrayPtr<const char> bytes) override {
    keep(stream == Stream::kOut ? stdoutText : stderrText, bytes);
  }
  bool outIsTerminal() const override { return false; }
  bool errIsTerminal() const override { return false; }
  bool inIsTerminal() const override { return false; }
  unsigned columns() const override { return 200; }
  unsigned rows() const override { return 24; }
  uint64_t written() const override { return stdoutText.size() + stderrText.size(); }

  kj::String takeOut() { return take(stdoutText); }
  kj::String takeErr() { return take(stderrText); }

 private:
  kj::Vector<char> stdoutText, stderrText;
  bool cut = false;

  void keep(kj::Vector<char>& to, kj::ArrayPtr<const char> text) {
    auto room = kMostBytes - kj::min(kMostBytes, stdoutText.size() + stderrText.size());
    to.addAll(text.slice(0, kj::min(room, text.size())));
    cut = cut || room < text.size();
  }
  kj::String take(kj::Vector<char>& text) {
    if (cut && &text == &stdoutText) text.addAll("\n(truncated: the output was longer)\n"_kj);
    return kj::heapString(text.asPtr());
  }
};

}  // namespace

Access Access::of(Invocation& call) {
  Access access;
  access.talosconfig = configPath(call);
  access.context = kj::str(call.text("context"));
  for (auto& endpoint : call.list("endpoints")) access.endpoints.add(kj::str(endpoint));
  return access;
}

kj::Promise<Captured> capture(Invocation& call, const Access& access, kj::StringPtr node,
                              kj::ArrayPtr<const kj::StringPtr> arguments, kj::Duration deadline) {
  kj::Vector<kj::String> all;
  for (auto argument : arguments) all.add(kj::str(argument));
  all.add(kj::str("--talosconfig=", access.talosconfig));
  if (access.context.size() > 0) all.add(kj::str("--context=", access.context));
  for (auto& endpoint : access.endpoints) all.add(kj::str("--endpoints=", endpoint));
  if (node.size() > 0) all.add(kj::str("--nodes=", node));
  auto views = KJ_MAP(argument, all) {
    return kj::StringPtr(argument);
  };
  CapturingConsole console;
  Dependencies deps{
      .lowLevel = call.deps.lowLevel,
      .port = call.deps.port,
      .timer = call.deps.timer,
      .clock = call.deps.clock,
      .console = console,
      .environment = [&call](kj::StringPtr name) { return call.deps.environment(name); },
      .apiPort = call.deps.apiPort};
  auto late = call.deps.timer.afterDelay(deadline).then([&]() {
    console.err(kj::str("timed out after ", durationText(deadline), "\n"));
    return 1;
  });
  Captured captured;
  captured.status =
      co_await run(deps, call.root, views, kj::NEVER_DONE).exclusiveJoin(kj::mv(late));
  captured.out = console.takeOut();
  captured.err = console.takeErr();
  co_return captured;
}

}  // namespace talos::talosctl
