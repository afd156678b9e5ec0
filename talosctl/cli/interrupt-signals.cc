#include "talosctl/cli/interrupt-signals.h"

#include <signal.h>

namespace talos::talosctl {

InterruptSignals::InterruptSignals() {
  struct sigaction usual;
  hangUp = sigaction(SIGHUP, nullptr, &usual) == 0 && usual.sa_handler != SIG_IGN;
  kj::UnixEventPort::captureSignal(SIGINT);
  kj::UnixEventPort::captureSignal(SIGTERM);
  if (hangUp) kj::UnixEventPort::captureSignal(SIGHUP);
}

kj::Promise<void> InterruptSignals::caught(Dependencies& deps) {
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

}  // namespace talos::talosctl
