// The half of the loop that communicates with the brain: requests in, reports out.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "machined/process1/init/held-watchdog.h"
#include "machined/process1/init/init-loop.h"
#include "machined/process1/init/machine-shutdown.h"
#include "machined/process1/init/power-button.h"
#include "machined/process1/init/request-check.h"

namespace talos::process1 {

// --- requests
// ----------------------------------------------------------------------------------------

bool Loop::receive(Packet& received) {
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kMaxPassed + 1))];
  struct iovec io = {packet, sizeof(packet)};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = recvmsg(brainSocket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size <= 0) return false;
  received.size = static_cast<size_t>(size);
  received.fdCount = 0;
  for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    unsigned count = static_cast<unsigned>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < count; ++i) {
      int fd;
      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      if (received.fdCount <= kMaxPassed) {
        received.fds[received.fdCount++] = fd;
      } else {
        close(fd);  // the buffer's padding has room for one more descriptor
        received.size = 0;
      }
    }
  }
  // The packet was truncated. No request has this size, so check() refuses the packet.
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) received.size = 0;
  return true;
}

void Loop::readRequests(bool toTheEnd) {
  Packet received;
  for (;;) {
    // A request is read only if there is room for its reply; this limits the replies.
    readBlocked = !toTheEnd && owedReplies() >= kMaxReplies;
    if (readBlocked || !receive(received)) return;
    if (const char* wrong = check(packet, received.size, received.fdCount)) {
      console.error("refused a packet from the brain: ", wrong);
      uint32_t id = 0;
      if (received.size >= sizeof(Request)) memcpy(&id, packet + offsetof(Request, id), sizeof(id));
      if (id != 0) reply(id, EINVAL, wrong);
    } else {
      carryOut(received);
    }
    for (unsigned i = 0; i < received.fdCount; ++i) {
      if (received.fds[i] >= 0) close(received.fds[i]);
    }
  }
}

void Loop::carryOut(Packet& received) {
  const auto& request = *reinterpret_cast<const Request*>(packet);
  missed = 0;  // every request is a sign of life
  cannotStart = false;
  switch (request.kind) {
    case RequestKind::kSpawn:
      spawn(*reinterpret_cast<const Spawn*>(packet), received);
      break;
    case RequestKind::kSignal:
      signalChild(request);
      break;
    case RequestKind::kAcknowledge:
      acknowledge(request.sequence);
      break;
    case RequestKind::kHold:
      hold(request, received.fds[0]);
      received.fds[0] = -1;  // kept, or closed by hold()
      break;
    case RequestKind::kDrop:
      drop(request);
      break;
    case RequestKind::kBeat:
      beaten = true;
      beatless = 0;
      break;
    case RequestKind::kBegun:
      powerActionBegun(request.argument);
      break;
    case RequestKind::kReboot:
      end(request.argument);
  }
}

void Loop::spawn(const Spawn& request, const Packet& received) {
  char reason[kReasonSize] = {};
  if (findRunning(request.head.name) != nullptr) {
    return reply(request.head.id, EEXIST, "the slot has a running child");
  }
  Child* child = nullptr;
  for (auto& c : children) {
    if (c.state == State::kFree) {
      child = &c;
      break;
    }
  }
  if (child == nullptr) {
    return reply(request.head.id, ENOSPC, "too many children or unacknowledged exits");
  }
  strings(request, argv, environment);
  Launch l = {};
  l.argv = argv;
  l.environment = environment;
  l.cgroupRoot = settings.cgroupRoot;
  l.memoryRoot = settings.memoryRoot;
  l.cgroup = request.cgroup;
  l.memoryMax = request.memoryMax;
  l.output = request.hasOutput ? received.fds[0] : -1;
  l.passed = request.passed;
  l.fds = received.fds + request.hasOutput;
  l.as = request.as;
  Launched launched;
  if (int error = launch(l, launched, reason)) return reply(request.head.id, error, reason);
  *child = Child();
  child->state = State::kStarting;
  child->replyTo = request.head.id;
  child->pid = launched.pid;
  child->pidfd = launched.pidfd;
  child->outcome = launched.status;
  memcpy(child->name, request.head.name, kNameSize);
  listenTo(child->outcome, Kind::kOutcome, indexOf(*child), EPOLLIN);
}

void Loop::hold(const Request& request, int fd) {
  if (strcmp(request.name, kTrialLimit) == 0) {
    uint32_t ticks = 0;
    if (pread(fd, &ticks, sizeof(ticks), 0) != sizeof(ticks) || ticks == 0) {
      close(fd);
      return reply(request.id, EINVAL, "no limit of a trial");
    }
    if (Held* before = findHeld(kSettled)) release(*before);
    settings.trial = ticks;
    trialTicks = 0;
  }
  Held* place = findHeld(request.name);
  if (place == nullptr) place = findHeld("");
  if (place == nullptr) {
    close(fd);
    return reply(request.id, ENOSPC, "process 1 already holds too many descriptors");
  }
  release(*place);
  place->fd = fd;
  memcpy(place->name, request.name, kNameSize);
  if (strcmp(request.name, kPowerButton) == 0) listenTo(fd, Kind::kPowerButton, 0, EPOLLIN);
  reply(request.id, 0, "");
}

void Loop::drop(const Request& request) {
  if (Held* place = findHeld(request.name)) {
    release(*place);
  }
  reply(request.id, 0, "");
}

void Loop::release(Held& place) {
  if (place.fd >= 0 && strcmp(place.name, kWatchdog) == 0) stopWatchdog(place.fd);
  unwatchAndClose(place.fd);
  place = Held();
}

void Loop::signalChild(const Request& request) {
  Child* c = findRunning(request.name);
  if (c == nullptr) return;
  syscall(SYS_pidfd_send_signal, c->pidfd, static_cast<int>(request.argument), nullptr, 0);
}

void Loop::acknowledge(uint64_t sequence) {
  for (auto& c : children) {
    if (c.state == State::kEnded && c.sequence == sequence) return release(c);
  }
}

void Loop::reply(uint32_t id, int code, const char* text, int child) {
  // The table is full only while the last requests of a dead brain are carried out; their replies
  // are not read.
  if (replyCount >= kMaxReplies) return;
  Reply& r = replies[(replyFirst + replyCount++) % kMaxReplies];
  r = Reply();
  r.id = id;
  r.code = code;
  r.child = child;
  strncpy(r.text, text, kReasonSize - 1);
}

unsigned Loop::owedReplies() const {
  unsigned count = replyCount;
  for (auto& c : children) count += c.state == State::kStarting && c.replyTo != 0;
  return count;
}

// --- reports
// -----------------------------------------------------------------------------------------

void Loop::pump() {
  while (brainSocket >= 0 && !writeBlocked && sendNext()) {
  }
  if (brainSocket >= 0 && readBlocked && owedReplies() < kMaxReplies) {
    readRequests(false);
    while (brainSocket >= 0 && !writeBlocked && sendNext()) {
    }
  }
}

// Returns true if something was sent and there may be more.
bool Loop::sendNext() {
  if (stage != Stage::kRunning) return sendInventory();
  if (replyCount > 0) {
    const Reply& r = replies[replyFirst];
    Report report = {};
    report.kind = ReportKind::kReply;
    report.id = r.id;
    report.code = r.code;
    memcpy(report.text, r.text, kReasonSize);
    int fd = -1;
    if (r.child >= 0) {
      Child& c = children[r.child];
      // A child that has ended meanwhile is still reported; its exit follows.
      report.pid = c.pid;
      fd = c.pidfd;
      c.announced = true;
    }
    if (!send(report, fd)) return false;
    replyFirst = (replyFirst + 1) % kMaxReplies;
    --replyCount;
    return true;
  }
  if (sendExit()) return true;
  for (auto action : {PowerAction::kPowerOff, PowerAction::kReboot}) {
    uint32_t bit = 1u << static_cast<int>(action);
    if ((pendingActions & ~announcedActions & bit) == 0) continue;
    Report report = {};
    report.kind = ReportKind::kPowerAction;
    report.code = static_cast<int32_t>(action);
    if (!send(report)) return false;
    announcedActions |= bit;
    return true;
  }
  return false;
}

bool Loop::sendInventory() {
  Report report = {};
  switch (stage) {
    case Stage::kWelcome:
      report.kind = ReportKind::kWelcome;
      report.sequence = brains;
      if (!send(report)) return false;
      stage = Stage::kSurvivors;
      cursor = 0;
      return true;
    case Stage::kSurvivors:
      for (; cursor < kMaxChildren; ++cursor) {
        Child& c = children[cursor];
        if ((c.state != State::kRunning && c.state != State::kStarting) || c.replyTo != 0) continue;
        report.kind = ReportKind::kSurvivor;
        report.pid = c.pid;
        memcpy(report.name, c.name, kNameSize);
        if (!send(report, c.pidfd)) return false;
        c.announced = true;
        ++cursor;
        return true;
      }
      stage = Stage::kHeld;
      cursor = 0;
      return true;
    case Stage::kHeld:
      for (; cursor < kMaxHeld; ++cursor) {
        if (held[cursor].fd < 0) continue;
        report.kind = ReportKind::kHeld;
        memcpy(report.name, held[cursor].name, kNameSize);
        if (!send(report, held[cursor].fd)) return false;
        ++cursor;
        return true;
      }
      stage = Stage::kReady;
      return true;
    case Stage::kReady:
      report.kind = ReportKind::kReady;
      if (!send(report)) return false;
      stage = Stage::kRunning;
      return true;
    case Stage::kRunning:
      break;
  }
  return false;
}

// Sends the oldest exit that was not reported to this brain.
bool Loop::sendExit() {
  Child* oldest = nullptr;
  for (auto& c : children) {
    if (c.state == State::kEnded && !c.exitReported &&
        (oldest == nullptr || c.sequence < oldest->sequence)) {
      oldest = &c;
    }
  }
  if (oldest == nullptr) return false;
  Report report = {};
  report.kind = ReportKind::kExit;
  report.sequence = oldest->sequence;
  report.pid = oldest->pid;
  report.code = oldest->status;
  memcpy(report.name, oldest->name, kNameSize);
  if (!send(report)) return false;
  oldest->exitReported = true;
  return true;
}

bool Loop::send(Report& report, int fd) {
  report.version = kVersion;
  struct iovec io = {&report, sizeof(report)};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(int));
  }
  if (sendmsg(brainSocket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
      static_cast<ssize_t>(sizeof(report))) {
    return true;
  }
  // If the socket is full, EPOLLOUT says when to continue. Otherwise the brain is exiting, and
  // EPOLLHUP or its exit follow.
  writeBlocked = true;
  return false;
}

Loop::Child* Loop::findRunning(const char* name) {
  for (auto& c : children) {
    if ((c.state == State::kStarting || c.state == State::kRunning) && strcmp(c.name, name) == 0) {
      return &c;
    }
  }
  return nullptr;
}

Loop::Held* Loop::findHeld(const char* name) {
  bool wantFree = name[0] == 0;
  for (auto& h : held) {
    if (wantFree ? h.fd < 0 : (h.fd >= 0 && strcmp(h.name, name) == 0)) return &h;
  }
  return nullptr;
}

}  // namespace talos::process1
