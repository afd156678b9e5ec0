#include "machined/process1/process1-socket.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/error.h"

namespace talos::machined {

using process1::Report;
using process1::ReportKind;
using process1::Request;
using process1::RequestKind;

namespace {

constexpr int kInventoryDeadlineMs = 10'000;

template <typename T>
kj::ArrayPtr<const kj::byte> bytesOf(const T& value) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(&value), sizeof(value));
}

// Copies a string into a field; refuses a string that the field would change.
void copyName(char* field, size_t size, kj::StringPtr text, kj::StringPtr what) {
  if (text.size() >= size || text.findFirst('\0') != nullptr) {
    fail(ErrorKind::kInvalidArgument,
         kj::str(what, " \"", text, "\" is longer than ", size - 1, " bytes"));
  }
  memcpy(field, text.begin(), text.size());
}

void addText(process1::Spawn& spawn, kj::ArrayPtr<const kj::String> strings, kj::StringPtr slot) {
  for (auto& s : strings) {
    if (s.findFirst('\0') != nullptr) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("an argument of \"", slot, "\" contains a zero byte"));
    }
    if (spawn.textSize + s.size() + 1 > process1::kTextSize) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("arguments and environment of \"", slot, "\" are longer than ",
                   process1::kTextSize, " bytes"));
    }
    memcpy(spawn.text + spawn.textSize, s.cStr(), s.size() + 1);
    spawn.textSize += s.size() + 1;
  }
}

kj::Own<process1::Spawn> describe(const Process1::SpawnRequest& request, const Request& head) {
  auto spawn = kj::heap<process1::Spawn>();
  memset(spawn.get(), 0, sizeof(process1::Spawn));
  spawn->head = head;
  copyName(spawn->cgroup, process1::kCgroupSize, request.cgroup, "the cgroup");
  size_t strings = request.argv.size() + request.environment.size();
  if (request.argv.size() == 0 || strings > process1::kMaxStrings) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", request.slot, "\" has ", strings, " arguments and variables; 1 to ",
                 process1::kMaxStrings, " are allowed"));
  }
  if (request.passed.size() > process1::kMaxPassed) {
    fail(ErrorKind::kInvalidArgument, kj::str("\"", request.slot, "\" is passed more than ",
                                              process1::kMaxPassed, " descriptors"));
  }
  spawn->memoryMax = request.memoryMax;
  spawn->argc = static_cast<uint16_t>(request.argv.size());
  spawn->envc = static_cast<uint16_t>(request.environment.size());
  addText(*spawn, request.argv, request.slot);
  addText(*spawn, request.environment, request.slot);
  return spawn;
}

ErrorKind kindOfErrno(int code) {
  switch (code) {
    case EEXIST:
      return ErrorKind::kConflict;
    case ENOENT:
      return ErrorKind::kNotFound;
    case ENOSPC:
      return ErrorKind::kResourceExhausted;
    case EINVAL:
      return ErrorKind::kInvalidArgument;
    default:
      return ErrorKind::kInternal;
  }
}

kj::String text(const char* field, size_t size) {
  return kj::heapString(field, strnlen(field, size));
}

}  // namespace

SocketProcess1::SocketProcess1(kj::UnixEventPort& port, kj::AutoCloseFd socketParam)
    : socket(kj::mv(socketParam)),
      observer(port, socket, kj::UnixEventPort::FdObserver::OBSERVE_READ_WRITE),
      reading(nullptr),
      writing(kj::READY_NOW),
      beating(nullptr) {
  KJ_SYSCALL(fcntl(socket, F_SETFD, FD_CLOEXEC));  // exec left it open for this program only
  readInventory();
  reading = readLoop().eagerlyEvaluate([this](kj::Exception&& e) { fail(kj::mv(e)); });
  beating = beat(port.getTimer()).eagerlyEvaluate([this](kj::Exception&& e) { fail(kj::mv(e)); });
}

// Sends beats from the loop itself: when the loop hangs, so do the beats. The first beat comes when
// the loop has restored the predecessor's state. A beat is dropped if the socket is full.
kj::Promise<void> SocketProcess1::beat(kj::Timer& timer) {
  for (;;) {
    co_await timer.afterDelay(process1::kBeatMs * kj::MILLISECONDS);
    if (unsent.empty()) trySend(bytesOf(request(RequestKind::kBeat, "")), nullptr);
  }
}

// --- the predecessor's state
// ----------------------------------------------------------------------------

void SocketProcess1::readInventory() {
  for (;;) {
    struct pollfd p = {socket.get(), POLLIN, 0};
    int n;
    KJ_SYSCALL(n = poll(&p, 1, kInventoryDeadlineMs));
    if (n == 0) {
      talos::fail(ErrorKind::kDeadlineExceeded,
                  "process 1 did not report what it holds within 10 s");
    }
    KJ_IF_MAYBE (incoming, receive()) {
      if (!takeInventory(kj::mv(*incoming))) return;
    }
  }
}

// Returns false at the end of the inventory.
bool SocketProcess1::takeInventory(Incoming incoming) {
  auto& report = incoming.report;
  auto name = text(report.name, sizeof(report.name));
  switch (report.kind) {
    case ReportKind::kWelcome:
      restarts = static_cast<unsigned>(report.sequence);
      return true;
    case ReportKind::kSurvivor:
      KJ_IF_MAYBE (fd, incoming.fd) {
        survivors.add(Survivor{kj::mv(name), report.pid, kj::mv(*fd)});
      }
      return true;
    case ReportKind::kHeld:
      KJ_IF_MAYBE (fd, incoming.fd) {
        held.upsert(kj::mv(name), kj::mv(*fd));
      }
      return true;
    case ReportKind::kReady:
      return false;
    default:
      handle(kj::mv(incoming));
      return true;
  }
}

kj::Maybe<kj::AutoCloseFd> SocketProcess1::takeHeld(kj::StringPtr name) {
  KJ_IF_MAYBE (fd, held.find(name)) {
    auto taken = kj::mv(*fd);
    held.erase(name);
    return kj::mv(taken);
  }
  return nullptr;
}

kj::Vector<kj::String> SocketProcess1::heldNames() {
  kj::Vector<kj::String> names;
  for (auto& h : held) names.add(kj::str(h.key));
  return names;
}

// --- requests
// ------------------------------------------------------------------------------------------

Request SocketProcess1::request(RequestKind kind, kj::StringPtr name, uint32_t argument) {
  Request r = {};
  r.version = process1::kVersion;
  r.kind = kind;
  r.id = ++lastId == 0 ? ++lastId : lastId;
  r.argument = argument;
  copyName(r.name, process1::kNameSize, name, "the name");
  return r;
}

kj::Promise<Process1::Started> SocketProcess1::spawn(SpawnRequest spawnRequest) {
  auto head = request(RequestKind::kSpawn, spawnRequest.slot);
  auto spawn = describe(spawnRequest, head);
  kj::Vector<int> fds;
  if (spawnRequest.stdoutFd >= 0) {
    spawn->hasOutput = 1;
    fds.add(spawnRequest.stdoutFd);
  }
  for (auto& p : spawnRequest.passed) {
    if (p.as < 3 || p.as > process1::kMaxPassedAs) {
      talos::fail(ErrorKind::kInvalidArgument,
                  kj::str("the number of a descriptor of \"", spawnRequest.slot, "\" is ", p.as,
                          "; must be 3 to ", process1::kMaxPassedAs));
    }
    spawn->as[spawn->passed++] = static_cast<uint8_t>(p.as);
    fds.add(p.fd);
  }
  size_t size = offsetof(process1::Spawn, text) + spawn->textSize;
  return kind(bytesOf(*spawn).slice(0, size), fds, head.id,
              kj::str("start of \"", spawnRequest.slot, "\""))
      .then([slot = kj::mv(spawnRequest.slot)](Started&& started) {
        KJ_REQUIRE(started.pidfd.get() >= 0, "process 1 started a child without a pidfd", slot);
        return kj::mv(started);
      });
}

void SocketProcess1::signal(kj::StringPtr slot, int number) {
  send(bytesOf(request(RequestKind::kSignal, slot, static_cast<uint32_t>(number))), nullptr);
}

kj::Promise<void> SocketProcess1::hold(kj::StringPtr name, int fd) {
  auto r = request(RequestKind::kHold, name);
  return kind(bytesOf(r), kj::arrayPtr(&fd, 1), r.id, kj::str("keeping of \"", name, "\""))
      .ignoreResult();
}

kj::Promise<void> SocketProcess1::drop(kj::StringPtr name) {
  auto r = request(RequestKind::kDrop, name);
  return kind(bytesOf(r), nullptr, r.id, kj::str("release of \"", name, "\"")).ignoreResult();
}

kj::Promise<void> SocketProcess1::reboot(unsigned command) {
  auto r = request(RequestKind::kReboot, "", command);
  return kind(bytesOf(r), nullptr, r.id, kj::str("reboot")).ignoreResult();
}

kj::Promise<Process1::Exit> SocketProcess1::nextExit() {
  KJ_IF_MAYBE (sequence, unacknowledged) {
    auto r = request(RequestKind::kAcknowledge, "");
    r.sequence = *sequence;
    unacknowledged = nullptr;
    send(bytesOf(r), nullptr);
  }
  if (!exits.empty()) {
    auto ended = kj::mv(exits.front());
    exits.pop_front();
    unacknowledged = ended.sequence;
    return kj::mv(ended.exit);
  }
  KJ_IF_MAYBE (e, broken) {
    return kj::cp(*e);
  }
  auto paf = kj::newPromiseAndFulfiller<Exit>();
  exitWanted = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

kj::Promise<Process1::PowerAction> SocketProcess1::nextPowerAction() {
  KJ_IF_MAYBE (given, deliveredAction) {
    auto begun = *given == PowerAction::kReboot ? process1::PowerAction::kReboot
                                                : process1::PowerAction::kPowerOff;
    send(bytesOf(request(RequestKind::kBegun, "", static_cast<uint32_t>(begun))), nullptr);
    deliveredAction = nullptr;
  }
  if (!pendingActions.empty()) {
    auto action = pendingActions.front();
    pendingActions.pop_front();
    deliveredAction = action;
    return action;
  }
  KJ_IF_MAYBE (e, broken) {
    return kj::cp(*e);
  }
  auto paf = kj::newPromiseAndFulfiller<PowerAction>();
  actionWaiter = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

kj::Promise<Process1::Started> SocketProcess1::kind(kj::ArrayPtr<const kj::byte> bytes,
                                                    kj::ArrayPtr<const int> fds, uint32_t id,
                                                    kj::String what) {
  KJ_IF_MAYBE (e, broken) {
    return kj::cp(*e);
  }
  auto paf = kj::newPromiseAndFulfiller<Started>();
  send(bytes, fds);
  waiting.insert(id, Waiting{kj::mv(what), kj::mv(paf.fulfiller)});
  return kj::mv(paf.promise);
}

// --- the socket
// ----------------------------------------------------------------------------------------

void SocketProcess1::send(kj::ArrayPtr<const kj::byte> bytes, kj::ArrayPtr<const int> fds) {
  if (unsent.empty() && trySend(bytes, fds)) return;
  Outgoing outgoing{kj::heapArray(bytes), {}};
  for (int fd : fds) {
    int copy;
    KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), fd);
    outgoing.fds.add(kj::AutoCloseFd(copy));
  }
  unsent.push_back(kj::mv(outgoing));
  if (flushing) return;
  flushing = true;
  writing = flush().eagerlyEvaluate([this](kj::Exception&& e) { fail(kj::mv(e)); });
}

// Returns false if the socket is full.
bool SocketProcess1::trySend(kj::ArrayPtr<const kj::byte> bytes, kj::ArrayPtr<const int> fds) {
  struct iovec io = {const_cast<kj::byte*>(bytes.begin()), bytes.size()};
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * (process1::kMaxPassed + 1))] = {};
  if (fds.size() > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    auto* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(c), fds.begin(), sizeof(int) * fds.size());
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    KJ_FAIL_SYSCALL("send to process 1", errno);
  }
}

kj::Promise<void> SocketProcess1::flush() {
  while (!unsent.empty()) {
    // before the attempt: the observer is edge-triggered
    auto writable = observer.whenBecomesWritable();
    while (!unsent.empty()) {
      auto& next = unsent.front();
      kj::Vector<int> fds;
      for (auto& fd : next.fds) fds.add(fd.get());
      if (!trySend(next.bytes, fds)) break;
      unsent.pop_front();
    }
    if (!unsent.empty()) co_await writable;
  }
  flushing = false;
}

kj::Maybe<SocketProcess1::Incoming> SocketProcess1::receive() {
  Incoming incoming;
  struct iovec io = {&incoming.report, sizeof(incoming.report)};
  alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  struct msghdr message = {};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return nullptr;
  if (size < 0) KJ_FAIL_SYSCALL("read from process 1", errno);
  if (size == 0) talos::fail(ErrorKind::kUnavailable, "process 1 closed the connection");
  if (auto* c = CMSG_FIRSTHDR(&message)) {
    int fd;
    memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    incoming.fd = kj::AutoCloseFd(fd);
  }
  KJ_REQUIRE(size == sizeof(Report) && incoming.report.version == process1::kVersion,
             "process 1 has another protocol version", size, incoming.report.version);
  return kj::mv(incoming);
}

kj::Promise<void> SocketProcess1::readLoop() {
  for (;;) {
    // before reading: the observer is edge-triggered
    auto readable = observer.whenBecomesReadable();
    for (;;) {
      KJ_IF_MAYBE (incoming, receive()) {
        handle(kj::mv(*incoming));
      } else {
        break;
      }
    }
    co_await readable;
  }
}

void SocketProcess1::handle(Incoming incoming) {
  auto& report = incoming.report;
  switch (report.kind) {
    case ReportKind::kReply:
      return settle(kj::mv(incoming));
    case ReportKind::kExit: {
      Exit exit{text(report.name, sizeof(report.name)), report.pid, report.code};
      KJ_IF_MAYBE (wanted, exitWanted) {
        auto fulfiller = kj::mv(*wanted);
        exitWanted = nullptr;
        if (fulfiller->isWaiting()) {
          unacknowledged = report.sequence;
          fulfiller->fulfill(kj::mv(exit));
          return;
        }
      }
      exits.push_back(Ended{report.sequence, kj::mv(exit)});
      return;
    }
    case ReportKind::kPowerAction: {
      auto action = report.code == static_cast<int>(process1::PowerAction::kReboot)
                        ? PowerAction::kReboot
                        : PowerAction::kPowerOff;
      KJ_IF_MAYBE (wanted, actionWaiter) {
        auto fulfiller = kj::mv(*wanted);
        actionWaiter = nullptr;
        if (fulfiller->isWaiting()) {
          deliveredAction = action;
          return fulfiller->fulfill(kj::mv(action));
        }
      }
      pendingActions.push_back(action);
      return;
    }
    default:
      KJ_FAIL_REQUIRE("unknown report of process 1", static_cast<uint32_t>(report.kind));
  }
}

void SocketProcess1::settle(Incoming incoming) {
  auto& report = incoming.report;
  KJ_IF_MAYBE (w, waiting.find(report.id)) {
    auto settled = kj::mv(*w);
    waiting.erase(report.id);
    if (report.code != 0) {
      auto reason = text(report.text, sizeof(report.text));
      settled.fulfiller->reject(
          error(kindOfErrno(report.code), kj::str(settled.what, " failed: ", reason)));
      return;
    }
    Started started{report.pid, kj::AutoCloseFd()};
    KJ_IF_MAYBE (fd, incoming.fd) {
      started.pidfd = kj::mv(*fd);
    }
    settled.fulfiller->fulfill(kj::mv(started));
  }
}

void SocketProcess1::fail(kj::Exception reason) {
  for (auto& w : waiting) w.value.fulfiller->reject(kj::cp(reason));
  waiting.clear();
  KJ_IF_MAYBE (w, exitWanted) {
    (*w)->reject(kj::cp(reason));
  }
  KJ_IF_MAYBE (w, actionWaiter) {
    (*w)->reject(kj::cp(reason));
  }
  broken = kj::mv(reason);
}

}  // namespace talos::machined
