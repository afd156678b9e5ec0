// talosctl: the client.
#include <signal.h>
#include <stdlib.h>

#include "talosctl/cli/run-command.h"
#include "talosctl/cli/standard-console.h"
#include "talosctl/cluster/cluster-command.h"
#include "talosctl/cluster/cluster-supervisor.h"
#include "talosctl/commands/all-commands.h"

namespace talos::talosctl {

namespace {

// Whether SIGHUP (the terminal was closed) ends this process; nohup makes it ignored.
bool hangUpEnds() {
  struct sigaction usual;
  return sigaction(SIGHUP, nullptr, &usual) == 0 && usual.sa_handler != SIG_IGN;
}

// Resolves at the first SIGINT, SIGTERM or SIGHUP for this process; the next one ends it.
kj::Promise<void> interrupt(Dependencies& deps, bool hangUp) {
  for (;;) {
    auto signal = deps.port.onSignal(SIGINT).exclusiveJoin(deps.port.onSignal(SIGTERM));
    if (hangUp) signal = signal.exclusiveJoin(deps.port.onSignal(SIGHUP));
    auto info = co_await signal;
    if (info.si_signo != SIGINT || !deps.terminalLent) break;
  }
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGINT, SIGTERM, SIGHUP}) {
    if (s == SIGHUP && !hangUp) continue;
    signal(s, SIG_DFL);
    sigaddset(&set, s);
  }
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

int mainInNamespace(kj::ArrayPtr<const kj::StringPtr> words) {
  kj::UnixEventPort::captureSignal(SIGINT);
  kj::UnixEventPort::captureSignal(SIGTERM);
  bool hangUp = hangUpEnds();
  if (hangUp) kj::UnixEventPort::captureSignal(SIGHUP);
  auto io = kj::setupAsyncIo();
  StandardConsole console;
  Dependencies deps{.lowLevel = *io.lowLevelProvider,
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
  return run(deps, *root, words, interrupt(deps, hangUp)).wait(io.waitScope);
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
