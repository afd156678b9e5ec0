// The half of the loop that does not trust the brain: it kills a brain that hangs, and carries out
// power actions requested at the machine without the brain.
//
// All times are counted in ticks, and a tick counts once, however long it took: process 1 was
// scheduled, had read everything from the brain, and there was nothing. So a machine that stood
// still as a whole (suspended, or a guest whose host is busy) has missed one beat, not all of them.
#include <errno.h>
#include <linux/netlink.h>
#include <linux/reboot.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machined/process1/init/held-watchdog.h"
#include "machined/process1/init/init-clock.h"
#include "machined/process1/init/init-loop.h"
#include "machined/process1/init/machine-shutdown.h"
#include "machined/process1/init/power-button.h"

namespace talos::process1 {

// shutDownMachine() takes at most a minute, the kernel some time for its devices.
static constexpr int kRestartSeconds = 120;
// The time for a hanging brain to report where (common/crash/crash-handler.h), which takes
// milliseconds; a stopped brain, or one that waits in the kernel, does not report.
static constexpr unsigned kReportTicks = 2;

void Loop::watch() {
  int64_t t = now();
  if (t - lastTick < settings.tickMs) return;
  lastTick = t;
  watchBrain();
  feed();
  watchTrial();
  watchPowerActions();
}

void Loop::watchBrain() {
  if (brainPid < 0) return;
  ++missed;
  unsigned allowed = beaten ? settings.missedBeats : settings.missedAtStart;
  if (missed < allowed || (brainKilled && missed % allowed != 0)) return;
  int64_t seconds = static_cast<int64_t>(missed) * settings.tickMs / 1000;
  if (brainKilled) {
    // The brain's memory or a file is on a device that does not answer; none of its user code runs
    // any more.
    console.error(settings.brain, " does not end, ", seconds, " s after its last sign of life");
    return;
  }
  if (!brainAborted) {
    console.error(settings.brain, " hangs: no sign of life for ", seconds, " s; killing it");
    brainAborted = true;
    syscall(SYS_pidfd_send_signal, brainPidfd, SIGABRT, nullptr, 0);
    return;
  }
  if (missed < allowed + kReportTicks) return;
  brainKilled = true;
  syscall(SYS_pidfd_send_signal, brainPidfd, SIGKILL, nullptr, 0);
}

void Loop::feed() {
  bool starved = ++beatless > settings.unfedAfter;
  Held* watchdog = findHeld(kWatchdog);
  if (watchdog == nullptr) return;
  if (starved) {
    if (beatless != settings.unfedAfter + 1) return;
    console.error(settings.brain, " has not worked for ",
                  static_cast<int64_t>(settings.unfedAfter) * settings.tickMs / 1000,
                  " s; the watchdog is no longer fed and resets the machine");
    return;
  }
  int error = feedWatchdog(watchdog->fd);
  if (error != 0 && error != feedError) {
    console.error("cannot feed the watchdog: ", errorText(error));
  }
  feedError = error;
}

// The watchdog keeps watching a restart, which it would only hasten. It must not reset a machine
// that is switched off, or continues with another kernel.
void Loop::end(unsigned command) {
  if (Held* watchdog = findHeld(kWatchdog)) {
    if (command == LINUX_REBOOT_CMD_RESTART) {
      feedUntilRestart(watchdog->fd, kRestartSeconds);
    } else {
      release(*watchdog);
    }
  }
  shutDownMachine(command, settings.termGraceMs, console);
}

// The brain does this itself, a minute earlier and with a reason; this is for a brain that cannot.
void Loop::watchTrial() {
  if (settings.trial == 0) return;
  if (findHeld(kSettled) != nullptr) {
    settings.trial = 0;
    return;
  }
  if (++trialTicks < settings.trial) return;
  settings.trial = 0;
  console.error("this system is on trial and was not confirmed in time; rebooting into the other");
  requestPowerAction(PowerAction::kReboot);
}

void Loop::requestPowerAction(PowerAction action) {
  uint32_t number = static_cast<uint32_t>(action);
  if (pendingActions == 0 && begun == 0) actionTicks = 0;  // a repeated request does not delay it
  if (begun != number) pendingActions |= 1u << number;
  newestAction = number;
}

void Loop::powerActionBegun(uint32_t action) {
  pendingActions &= ~(1u << action);
  if (begun == 0) actionTicks = 0;
  begun = action;
}

// Reads one datagram. The loop wakes up again for the rest; between two turns it handles everything
// else.
void Loop::onPowerButton() {
  Held* button = findHeld(kPowerButton);
  if (button == nullptr) return;
  char datagram[256];  // a longer datagram is another event, and still too long when cut
  struct sockaddr_nl sender = {};
  socklen_t size = sizeof(sender);
  ssize_t got = recvfrom(button->fd, datagram, sizeof(datagram), MSG_DONTWAIT,
                         reinterpret_cast<struct sockaddr*>(&sender), &size);
  if (got >= 0 && isPowerButton(datagram, static_cast<size_t>(got), sender.nl_pid)) {
    console.info("the power button was pressed");
    return requestPowerAction(PowerAction::kPowerOff);
  }
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == ENOBUFS))) return;
  console.error("cannot listen for the power button: ", got == 0 ? "closed" : errorText(errno));
  epoll_ctl(epoll, EPOLL_CTL_DEL, button->fd, nullptr);
}

void Loop::watchPowerActions() {
  if (pendingActions == 0 && begun == 0) return;
  bool reboot = newestAction == static_cast<uint32_t>(PowerAction::kReboot);
  const char* what = reboot ? "reboot" : "shut down";
  if (cannotStart && brainPid < 0) {
    // The next start would fail as the last one did.
    console.error(settings.brain, " cannot be started to ", what, "; going on without it");
  } else {
    unsigned allowed = begun == 0 ? settings.actionBeginsWithin : settings.actionEndsWithin;
    if (++actionTicks < allowed) return;
    console.error(settings.brain, begun == 0 ? " did not begin to " : " did not finish to ", what,
                  " within ", static_cast<int64_t>(allowed) * settings.tickMs / 1000,
                  " s; going on without it");
  }
  end(reboot ? LINUX_REBOOT_CMD_RESTART : LINUX_REBOOT_CMD_POWER_OFF);
}

}  // namespace talos::process1
