// read <path>, copy <path> <directory or ->
#include "talosctl/archive/extract.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/client/received-bytes.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

kj::Promise<int> runRead(Invocation& call) {
  auto session = co_await openSingle(call);
  auto node = session->client.node(session->client.nodes()[0]);
  auto request = node.filesRequest().send().getFiles().readRequest();
  request.setPath(call.arguments[0]);
  ReceivedBytes received(
      [&call](kj::ArrayPtr<const kj::byte> bytes) { call.outBytes(bytes.asChars()); });
  request.setSink(received.sink());
  Alive alive;
  co_await watched(*session, node, alive, request.send().ignoreResult());
  co_return 0;
}

kj::Promise<int> runCopy(Invocation& call) {
  auto& source = call.arguments[0];
  auto& target = call.arguments[1];
  if (!source.startsWith("/"))
    failUsage(kj::str("the source must be an absolute path, not \"", source, "\""));
  if (target == "-" && call.deps.console.outIsTerminal()) {
    failUsage(
        "an archive cannot be printed on a terminal; name a directory, or pipe it into "
        "\"tar tz\"");
  }
  auto session = co_await openSingle(call);
  kj::Maybe<kj::Own<Extractor>> extractor;
  if (target != "-") extractor = kj::heap<Extractor>(target);

  auto node = session->client.node(session->client.nodes()[0]);
  auto request = node.filesRequest().send().getFiles().copyRequest();
  request.setPath(source);
  SinkFailure broken;
  ReceivedBytes received([&call, &extractor, &broken](kj::ArrayPtr<const kj::byte> bytes) {
    KJ_IF_MAYBE (e, extractor) {
      broken.keeping([&]() { (*e)->feed(bytes); });
    } else {
      call.outBytes(bytes.asChars());
    }
  });
  request.setSink(received.sink());
  Alive alive;
  kj::Vector<kj::String> unreadable;
  co_await broken.before(
      watched(*session, node, alive, request.send().then([&unreadable](auto&& answer) {
        for (auto path : answer.getUnreadable()) unreadable.add(kj::str(path));
      })));
  KJ_IF_MAYBE (e, extractor) {
    (*e)->finish();
    for (auto& s : (*e)->skipped()) call.err(kj::str("skipped: ", printable(s), "\n"));
  }
  for (auto& path : unreadable) {
    call.err(kj::str(session->client.nodes()[0], ": cannot read ", printable(path), "\n"));
  }
  co_return unreadable.empty() ? 0 : 1;
}

}  // namespace

void addTransferCommands(Command& root) {
  auto& read = root.add("read", "Print a file of one node");
  read.arguments = "<path>";
  read.least = read.most = 1;
  read.run = runRead;

  auto& copy = root.add("copy", "Copy a file or a tree from one node");
  copy.aliases = {"cp"};
  copy.arguments = "<path> <directory | ->";
  copy.least = copy.most = 2;
  copy.details =
      "With \"-\" the gzip'd tar archive itself is written to stdout. Existing files are never "
      "overwritten. What the node cannot read is named, the rest is copied, and the exit status is "
      "1.";
  copy.run = runCopy;
}

}  // namespace talos::talosctl
