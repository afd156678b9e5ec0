// talosctl: the client.
#include <signal.h>
#include <stdlib.h>

#include "talosctl/cluster/command.h"
#include "talosctl/cluster/supervisor.h"
#include "talosctl/commands.h"
#include "talosctl/console.h"
#include "talosctl/run.h"

namespace talos::talosctl {

namespace {

// The first SIGINT or SIGTERM that is meant for us; from then on both end the process.
kj::Promise<void> interrupt(World& world) {
  for (;;) {
    auto info = co_await world.port.onSignal(SIGINT).exclusiveJoin(world.port.onSignal(SIGTERM));
    if (info.si_signo == SIGTERM || !world.terminalLent) break;
  }
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM}) {
    signal(s, SIG_DFL);
    sigaddset(&set, s);
  }
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

int mainInNamespace(kj::ArrayPtr<const kj::StringPtr> words) {
  kj::UnixEventPort::captureSignal(SIGINT);
  kj::UnixEventPort::captureSignal(SIGTERM);
  auto io = kj::setupAsyncIo();
  StandardConsole console;
  World world{.lowLevel = *io.lowLevelProvider,
              .port = io.unixEventPort,
              .timer = io.provider->getTimer(),
              .clock = kj::systemPreciseCalendarClock(),
              .console = console,
              .environment = [](kj::StringPtr name) -> kj::Maybe<kj::String> {
                const char* value = getenv(name.cStr());
                if (value == nullptr) return nullptr;
                return kj::str(value);
              }};
  auto root = newRoot();
  addCommands(*root);
  addClusterCommands(*root);
  return run(world, *root, words, interrupt(world)).wait(io.waitScope);
}

}  // namespace

}  // namespace talos::talosctl

int main(int argc, char** argv) {
  kj::Vector<kj::StringPtr> words;
  for (int i = 1; i < argc; ++i) words.add(argv[i]);
  // Not a command: the process of a local cluster, which has a loop and a network namespace of its
  // own. `cluster create` starts it and listens on descriptor 3.
  if (words.size() == 2 && words[0] == "cluster-run")
    return talos::cluster::runSupervisor(words[1], 3);
  return talos::talosctl::mainInNamespace(words);
}
