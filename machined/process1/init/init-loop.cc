#include "machined/process1/init/init-loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machined/process1/init/init-clock.h"
#include "machined/process1/init/machine-shutdown.h"
#include "machined/process1/init/power-button.h"
#include "machined/process1/init/request-check.h"

namespace talos::process1 {
namespace {

constexpr int64_t kManyDeathsWithin = 10'000;  // ms
constexpr int64_t kLongestBackOff = 10'000;    // ms

int sendSignal(int pidfd, int number) {
  return static_cast<int>(syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

}  // namespace

Loop::Loop(const Settings& settings, const Console& console)
    : settings(settings), console(console) {}

void Loop::run() {
  setUp();
  for (;;) {
    int64_t timeout = settings.tickMs;
    if (brainPid < 0) {
      if (brainDue <= now()) startBrain();
      int64_t wait = brainDue - now();
      if (brainPid < 0 && wait < timeout) timeout = wait < 0 ? 0 : wait;
    }
    struct epoll_event events[32];
    int count = epoll_wait(epoll, events, 32, static_cast<int>(timeout));
    for (int i = 0; i < count; ++i) {
      handle(static_cast<Kind>(events[i].data.u64 >> 32),
             static_cast<unsigned>(events[i].data.u64 & 0xffffffffu), events[i].events);
    }
    pump();
    watch();
  }
}

void Loop::setUp() {
  sigfillset(&caught);
  sigprocmask(SIG_SETMASK, &caught, nullptr);
  // Children get only the descriptors that are passed to them.
  close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  // Ctrl-alt-del becomes SIGINT. Outside the first pid namespace this is neither allowed nor
  // needed.
  if (reboot(RB_DISABLE_CAD) != 0) errno = 0;
  epoll = epoll_create1(EPOLL_CLOEXEC);
  signals = signalfd(-1, &caught, SFD_NONBLOCK | SFD_CLOEXEC);
  int ends[2];
  if (epoll < 0 || signals < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    haltWithError(console, "cannot set up process 1", errno);
  }
  outputRead = ends[0];
  outputWrite = ends[1];
  fcntl(outputWrite, F_SETFL, 0);  // only this end is non-blocking
  if (settings.userData >= 0) {
    held[0].fd = settings.userData;
    memcpy(held[0].name, kUserData, sizeof(kUserData));
  }
  listenTo(signals, Kind::kSignals, 0, EPOLLIN);
  listenTo(outputRead, Kind::kBrainOutput, 0, EPOLLIN);
}

void Loop::listenTo(int fd, Kind kind, unsigned index, uint32_t events) {
  struct epoll_event e = {};
  e.events = events;
  e.data.u64 = static_cast<uint64_t>(kind) << 32 | index;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
    epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &e);
  }
}

void Loop::unwatchAndClose(int& fd) {
  if (fd < 0) return;
  // A child that was forked and has not called exec yet shares the open file, so closing ours would
  // not remove it from epoll. Hence it is removed explicitly.
  epoll_ctl(epoll, EPOLL_CTL_DEL, fd, nullptr);
  close(fd);
  fd = -1;
}

void Loop::handle(Kind kind, unsigned index, uint32_t events) {
  switch (kind) {
    case Kind::kSignals:
      onSignals();
      break;
    case Kind::kBrain:
      if (brainSocket < 0) break;
      if (events & EPOLLIN) readRequests(false);
      if (brainSocket >= 0 && (events & EPOLLOUT)) writeBlocked = false;
      if (brainSocket >= 0 && (events & (EPOLLHUP | EPOLLERR))) {
        // The brain closed its end: alive or not, it is of no use any more.
        readRequests(true);
        forgetBrain();
        if (brainPidfd >= 0) sendSignal(brainPidfd, SIGKILL);
      }
      break;
    case Kind::kBrainOutput:
      copyBrainOutput();
      break;
    case Kind::kOutcome:
      if (children[index].state == State::kStarting) onOutcome(index);
      break;
    case Kind::kPowerButton:
      onPowerButton();
      break;
  }
}

// --- the brain
// ---------------------------------------------------------------------------------------

void Loop::startBrain() {
  int ends[2];
  char reason[kReasonSize] = {};
  brainStarted = now();
  int error = 0;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    error = errno;
  } else {
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    char* brainArgv[] = {const_cast<char*>(settings.brain), nullptr};
    const uint8_t as[] = {kBrainFd};
    Launch l = {};
    l.argv = brainArgv;
    l.environment = settings.brainEnvironment;
    l.cgroupRoot = settings.cgroupRoot;
    l.memoryRoot = settings.memoryRoot;
    l.cgroup = "init";
    l.output = settings.brainOutput >= 0 ? settings.brainOutput : outputWrite;
    l.passed = 1;
    l.fds = &ends[1];
    l.as = as;
    l.oomScore = -999;
    Launched launched;
    error = launch(l, launched, reason);
    close(ends[1]);
    if (error != 0) {
      close(ends[0]);
    } else {
      brainPid = launched.pid;
      brainPidfd = launched.pidfd;
      brainOutcome = launched.status;
      brainSocket = ends[0];
      stage = Stage::kWelcome;
      cursor = 0;
      writeBlocked = readBlocked = false;
      beaten = brainAborted = brainKilled = false;
      missed = 0;
      lastTick = brainStarted;
      announcedActions = 0;
      listenTo(brainSocket, Kind::kBrain, 0, EPOLLIN | EPOLLOUT | EPOLLET);
      return;
    }
  }
  cannotStart = true;
  brainDue = brainStarted + 1000;
  console.error("cannot start the brain: ", reason[0] != 0 ? reason : errorText(error),
                "; retrying every second");
}

void Loop::forgetBrain() {
  unwatchAndClose(brainSocket);
  replyCount = 0;
  for (auto& c : children) {
    c.announced = c.exitReported = false;
    c.replyTo = 0;
  }
}

void Loop::brainDied(int status) {
  if (brainSocket >= 0) readRequests(true);
  forgetBrain();
  copyBrainOutput();
  Failure failure = {};
  bool started = read(brainOutcome, &failure, sizeof(failure)) != sizeof(failure);
  cannotStart = !started;
  close(brainOutcome);
  close(brainPidfd);
  brainOutcome = brainPidfd = brainPid = -1;
  ++brains;

  int64_t t = now();
  memmove(deaths, deaths + 1, sizeof(deaths) - sizeof(deaths[0]));
  deaths[5] = t;
  bool many = settings.backsOff && brains > 5 && t - deaths[0] < kManyDeathsWithin;
  if (!many && t - brainStarted >= kManyDeathsWithin) backOff = 0;
  if (many || backOff > 0) {
    backOff = backOff == 0 ? 1000 : backOff * 2;
    if (backOff > kLongestBackOff) backOff = kLongestBackOff;
  }
  brainDue = t + backOff;

  Line problem;
  if (started) {
    problem.add("exited with ");
    addStatus(problem, status);
  } else {
    failure.step[sizeof(failure.step) - 1] = 0;
    problem.add("could not be started (").add(failure.step).add(": ").add(errorText(failure.error));
    problem.add(")");
  }
  if (backOff == 0) {
    console.error(settings.brain, " ", problem.text(), "; restarting it");
  } else {
    console.error(settings.brain, " ", problem.text(), " (it exited ", static_cast<int64_t>(brains),
                  " times since boot, too often); restarting it in ", backOff / 1000, " s");
  }
}

void Loop::copyBrainOutput() {
  for (;;) {
    ssize_t size = read(outputRead, outputLine + outputUsed, sizeof(outputLine) - outputUsed - 1);
    if (size <= 0) break;
    outputUsed += static_cast<size_t>(size);
    char* start = outputLine;
    char* end = outputLine + outputUsed;
    for (char* p = start; p < end; ++p) {
      if (*p == 0 || (*p != '\t' && *p != '\n' && static_cast<unsigned char>(*p) < 32)) *p = '?';
    }
    while (char* newline =
               static_cast<char*>(memchr(start, '\n', static_cast<size_t>(end - start)))) {
      *newline = 0;
      console.info("brain: ", start);
      start = newline + 1;
    }
    outputUsed = static_cast<size_t>(end - start);
    memmove(outputLine, start, outputUsed);
    if (outputUsed == sizeof(outputLine) - 1) {
      outputLine[outputUsed] = 0;
      console.info("brain: ", static_cast<const char*>(outputLine));
      outputUsed = 0;
    }
  }
}

// --- children
// ----------------------------------------------------------------------------------------

void Loop::onSignals() {
  struct signalfd_siginfo info;
  while (read(signals, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    switch (info.ssi_signo) {
      case SIGINT:  // ctrl-alt-del
        requestPowerAction(PowerAction::kReboot);
        break;
      case SIGTERM:
      case SIGPWR:
        requestPowerAction(PowerAction::kPowerOff);
        break;
    }
  }
  reap();
}

void Loop::reap() {
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid == brainPid) {
      brainDied(status);
      continue;
    }
    for (auto& c : children) {
      if (c.pid == pid && (c.state == State::kStarting || c.state == State::kRunning)) {
        if (c.state == State::kStarting) onOutcome(indexOf(c));
        if (c.state != State::kFree) childEnded(c, status);
        break;
      }
    }
    // Any other process was an orphan, which only had to be reaped.
  }
}

void Loop::onOutcome(unsigned index) {
  Child& c = children[index];
  Failure failure;
  ssize_t size = read(c.outcome, &failure, sizeof(failure));
  if (size < 0 && errno == EAGAIN) return;
  unwatchAndClose(c.outcome);
  if (size != static_cast<ssize_t>(sizeof(failure))) {
    c.state = State::kRunning;
    if (c.replyTo != 0) reply(c.replyTo, 0, "", static_cast<int>(index));
    c.replyTo = 0;
    return;
  }
  failure.step[sizeof(failure.step) - 1] = 0;
  Line line;
  line.add("cannot start \"").add(c.name).add("\": ").add(failure.step).add(": ");
  line.add(errorText(failure.error));
  if (c.replyTo != 0) {
    reply(c.replyTo, failure.error, line.text());
    release(c);
  } else {
    // The brain that sent the request died before the start failed, and its successor may have got
    // the child as a survivor. So the child counts as running until its exit is reported.
    c.state = State::kRunning;
  }
}

void Loop::childEnded(Child& child, int status) {
  // The child may end before the reply to its spawn is sent, and that reply carries the pidfd. So
  // the pidfd stays open until the exit is acknowledged.
  unwatchAndClose(child.outcome);
  child.state = State::kEnded;
  child.exitReported = false;
  child.status = status;
  child.sequence = ++exits;
}

void Loop::release(Child& child) {
  unwatchAndClose(child.outcome);
  if (child.pidfd >= 0) close(child.pidfd);
  child = Child();
}

}  // namespace talos::process1
