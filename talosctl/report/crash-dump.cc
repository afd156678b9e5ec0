#include "talosctl/report/crash-dump.h"

#include <string.h>

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/report/file-end.h"
#include "talosctl/report/node-report.h"

namespace talos::talosctl {
namespace {

constexpr kj::Duration kNode = 30 * kj::SECONDS;
// Margin on top of the limit: a connection attempt has the same limit, and its error is clearer.
constexpr kj::Duration kLast = 1 * kj::SECONDS;
constexpr size_t kLines = 100;
constexpr size_t kConsole = 256 << 10;           // more than kLines lines of it
constexpr kj::StringPtr kEtcdLines = "5000"_kj;  // many lines of etcd's log have little content

kj::String heading(kj::StringPtr text) {
  auto line = kj::heapString(text.size());
  memset(line.begin(), '=', line.size());
  return kj::str("\n", text, "\n", line, "\n\n");
}

kj::Promise<void> dumpLogs(Invocation& call, const Access& access, kj::StringPtr node,
                           kj::Function<void(kj::StringPtr)>& write) {
  auto client = clientFor(call, access);
  for (auto& id : co_await logsOf(call, *client, node)) {
    auto lines = kj::str(kLines);
    kj::StringPtr arguments[] = {"logs", id, "--tail",
                                 id == "etcd" ? kEtcdLines : kj::StringPtr(lines)};
    auto captured = co_await capture(call, access, node, arguments, kNode);
    write(kj::str("> ", id, "\n", captured.out, captured.err, "\n"));
  }
}

// Returns the end of a console, or the error of reading it.
kj::String consoleOf(kj::StringPtr path) {
  kj::String text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto end = tryReadEnd(path, kConsole).orDefault(kj::str());
                 text = printableText(lastLines(end, kLines));
               })) {
    return kj::str(messageOf(*e), "\n");
  }
  return text;
}

}  // namespace

kj::ArrayPtr<const char> lastLines(kj::ArrayPtr<const char> text, size_t count) {
  size_t from = text.size();
  if (from > 0 && text[from - 1] == '\n') --from;
  while (from > 0 && (text[from - 1] != '\n' || --count > 0)) --from;
  return text.slice(from, text.size());
}

kj::Promise<size_t> writeCrashDump(Invocation& call, const Access& access,
                                   kj::ArrayPtr<const DumpedNode> nodes,
                                   kj::Function<void(kj::StringPtr text)> write) {
  size_t good = 0;
  for (auto& node : nodes) {
    write(heading(node.name));
    auto failure =
        co_await within(call.deps.timer, call.deadline(kNode) + kLast,
                        dumpLogs(call, access, node.name, write))
            .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                  [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      write(kj::str(printableText(messageOf(*e)), "\n"));
      if (node.console.size() == 0) continue;
      write(kj::str("> console\n", consoleOf(node.console), "\n"));
    } else {
      ++good;
    }
  }
  co_return good;
}

}  // namespace talos::talosctl
