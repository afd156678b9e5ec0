#include "talosctl/cli/run-command.h"

#include <signal.h>

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/cli/help.h"

namespace talos::talosctl {

namespace {

int report(Invocation& call, const kj::Exception& e) {
  if (isUsage(e)) {
    call.err(kj::str("error: ", printableText(e.getDescription()), "\n\n",
                     usageHint(call.command, helpColumns(call.deps))));
  } else {
    call.err(kj::str("error: ", messageText(e), "\n", requestNote(call.deps, e)));
  }
  return 1;
}

// Exit status that a shell reports for a program ended by SIGINT.
constexpr int kInterrupted = 130;

// The first Ctrl-C ends only the command: a node continues with the requests that it has accepted.
kj::StringPtr interruptedText(const Invocation& call) {
  bool follows = call.declared("wait") && call.on("wait");
  return follows ? "interrupted; a node that has accepted the request continues\n"_kj
                 : "interrupted\n"_kj;
}

kj::Promise<int> guarded(Invocation& call) {
  return kj::evalNow([&]() { return call.command.run(call); })
      .then([&call](int status) {
        if (status == 0 && call.done.size() > 0 && call.deps.console.errIsTerminal()) {
          call.err(kj::str(printableText(call.done), "\n"));
        }
        return status;
      })
      .catch_([&call](kj::Exception&& e) { return report(call, e); });
}

}  // namespace

kj::Promise<int> run(Dependencies& deps, const Command& root,
                     kj::ArrayPtr<const kj::StringPtr> words, kj::Promise<void> interrupt) {
  auto parsed = parseCommandLine(deps, root, words);
  auto& call = *parsed.call;
  KJ_IF_MAYBE (mistake, parsed.mistake) {
    if (!parsed.help) {
      call.err(kj::str("error: ", printableText(*mistake), "\n\n",
                       usageHint(call.command, helpColumns(deps))));
      co_return 1;
    }
  }
  if (parsed.help || call.command.run == nullptr) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { call.out(helpText(call.command, helpColumns(deps))); })) {
      co_return report(call, *e);
    }
    co_return 0;
  }
  deps.console.waiting(kWaiting);
  KJ_DEFER(deps.console.waiting(""));
  call.interruption = kj::heap(interrupt.fork());
  auto outcome = guarded(call);
  if (call.command.interrupt != Interrupt::kIsCommands) {
    bool success = call.command.interrupt == Interrupt::kIsSuccess;
    outcome = outcome.exclusiveJoin(call.interrupted().then([&call, success]() {
      call.err(interruptedText(call));
      return success ? 0 : kInterrupted;
    }));
  }
  co_return co_await outcome;
}

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

kj::String requestNote(const Dependencies& deps, const kj::Exception& e) {
  if (!deps.requested || deps.requestId.size() == 0) return kj::String();
  auto kind = kindOf(e);
  if (kind != ErrorKind::kInternal && kind != ErrorKind::kDeadlineExceeded) return kj::String();
  return kj::str("see \"talosctl logs machined --grep ", deps.requestId, "\"\n");
}

}  // namespace talos::talosctl
