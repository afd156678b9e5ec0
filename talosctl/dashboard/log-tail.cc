#include "talosctl/dashboard/log-tail.h"

#include "common/base/backoff.h"
#include "common/base/lines.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr int kFirstLines = 500;
constexpr Backoff::Pace kPace = {500 * kj::MILLISECONDS, 5 * kj::SECONDS};

}  // namespace

class LogTail::Sink final : public rpc::LogSink::Server {
 public:
  explicit Sink(Kept& kept) : kept(kj::addRef(kept)) {}
  kj::Promise<void> write(WriteContext context) override {
    auto params = context.getParams();
    for (auto line : Lines(params.getBytes().asChars())) kept->add(line);
    kept->next = params.getNext();
    return kj::READY_NOW;
  }
  kj::Promise<void> missed(MissedContext context) override {
    kept->add(kj::str("(", context.getParams().getBytes(), " bytes were overwritten unread)"));
    return kj::READY_NOW;
  }

 private:
  kj::Own<Kept> kept;
};

LogTail::LogTail(SharedClient& client, kj::StringPtr node, kj::StringPtr service)
    : client(client), node(kj::str(node)), service(kj::str(service)), following(follow()) {}

void LogTail::Kept::add(kj::ArrayPtr<const char> line) {
  if (lines.size() >= 2 * kMostLines) {
    kj::Vector<kj::String> newest;
    for (auto& one : lines.asPtr().slice(kMostLines, lines.size())) newest.add(kj::mv(one));
    lines = kj::mv(newest);
  }
  lines.add(kj::heapString(line));
}

// Starts from the beginning after a reboot, because positions in the log are valid for one boot.
kj::Promise<void> LogTail::startAnewAfterReboot(SharedClient::Held& held) {
  kj::Promise<capnp::Response<rpc::Version>> answer =
      held.client.node(node).machineRequest().send().getMachine().versionRequest().send();
  auto version = co_await within(held.client.deps.timer, SharedClient::kAnswer, kj::mv(answer));
  if (bootId.size() > 0 && bootId != version.getBootId()) {
    kept->next = 0;
    kept->add("(the node was rebooted; its log starts again)"_kj);
  }
  bootId = kj::str(version.getBootId());
}

kj::Promise<void> LogTail::read() {
  auto held = client.get();
  co_await held->connect();
  co_await startAnewAfterReboot(*held);
  auto logs = held->client.node(node).logsRequest().send().getLogs();
  auto ask = [&](auto request) {
    request.setFollow(true);
    request.setSink(kj::heap<Sink>(*kept));
    return held->whileCurrent(request.send().ignoreResult());
  };
  if (service.size() == 0) {
    auto request = logs.kernelRequest();
    request.setFromSequence(kept->next);
    co_await ask(kj::mv(request));
  } else {
    auto request = logs.readRequest();
    request.setId(service);
    request.setTailLines(kFirstLines);
    request.setFrom(kept->next);
    co_await ask(kj::mv(request));
  }
}

kj::Promise<void> LogTail::follow() {
  Backoff backoff(kPace);
  for (;;) {
    kj::Maybe<kj::String> problem;
    auto before = kept->next;
    try {
      co_await read();
    } catch (const kj::Exception& e) {
      problem = messageText(e);
    }
    KJ_IF_MAYBE (text, problem) {
      // Shown once, not with every attempt.
      auto line = kj::str("(", *text, ")");
      if (kept->lines.size() == 0 || kept->lines.back() != line) kept->add(line);
    }
    if (kept->next != before) backoff.reset();
    co_await client.get()->client.deps.timer.afterDelay(backoff.next());
  }
}

}  // namespace talos::talosctl::dashboard
