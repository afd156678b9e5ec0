// talosctl: the client.
#include <stdlib.h>

#include "common/base/standard-streams.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/cli/run-command.h"
#include "talosctl/cli/standard-console.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/nodes/cluster-supervisor.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

// Returns a random id of at most 16 hexadecimal digits.
kj::String newRequestId() {
  uint64_t random = 0;
  arc4random_buf(&random, sizeof random);
  return kj::str(kj::hex(random));
}

int mainInNamespace(kj::ArrayPtr<const kj::StringPtr> words) {
  InterruptSignals interrupt;
  auto io = kj::setupAsyncIo();
  StandardConsole streams;
  WaitLine console(streams, io.provider->getTimer());
  auto requestId = newRequestId();
  Dependencies deps{.lowLevel = *io.lowLevelProvider,
                    .port = io.unixEventPort,
                    .timer = io.provider->getTimer(),
                    .clock = kj::systemPreciseCalendarClock(),
                    .console = console,
                    .environment = [](kj::StringPtr name) -> kj::Maybe<kj::String> {
                      const char* value = getenv(name.cStr());
                      if (value == nullptr) return nullptr;
                      return kj::str(value);
                    },
                    .requestId = requestId};
  auto root = newRoot();
  addCommands(*root);
  addClusterCommands(*root);
  addLocalDebugCommands(*root);
  addAbsentCommands(*root);
  addExamples(*root);
  return run(deps, *root, words, interrupt.caught(deps)).wait(io.waitScope);
}

}  // namespace

}  // namespace talos::talosctl

int main(int argc, char** argv) {
  talos::openClosedStandardStreams();
  kj::Vector<kj::StringPtr> words;
  for (int i = 1; i < argc; ++i) words.add(argv[i]);
  // Not a command: the process of a local cluster, which has its own event loop and network
  // namespace. `cluster create` starts it and reads its descriptor 3.
  if (words.size() == 2 && words[0] == "cluster-run")
    return talos::cluster::runSupervisor(words[1], 3);
  return talos::talosctl::mainInNamespace(words);
}
