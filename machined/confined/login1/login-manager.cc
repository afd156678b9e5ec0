#include "machined/confined/login1/login-manager.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <poll.h>
#include <sdbus-c++/sdbus-c++.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::login1 {
namespace {

const char* const kService = "org.freedesktop.login1";
const char* const kObject = "/org/freedesktop/login1";
const char* const kInterface = "org.freedesktop.login1.Manager";
const char* const kBus = "org.freedesktop.DBus";
const char* const kBusObject = "/org/freedesktop/DBus";
const char* const kUnknownPid = "org.freedesktop.DBus.Error.UnixProcessIdUnknown";
const char* const kInvalidArguments = "org.freedesktop.DBus.Error.InvalidArgs";

kj::String textOf(const std::string& text) {
  return kj::heapString(text.data(), text.size());
}
std::string textFor(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// A lock in the order of ListInhibitors: what, who, why, mode, uid, pid.
using ListedLock =
    sdbus::Struct<std::string, std::string, std::string, std::string, uint32_t, uint32_t>;

constexpr auto kBusAnswers = std::chrono::seconds(2);

// Returns a fact that the bus knows about a client (D-Bus Specification, "Message Bus Messages").
// The library's own function also reads /proc, which this program cannot access.
uint32_t askBus(sdbus::IProxy& bus, const char* what, const char* client) {
  uint32_t answer;
  bus.callMethod(what)
      .onInterface(kBus)
      .withTimeout(kBusAnswers)
      .withArguments(std::string(client))
      .storeResultsTo(answer);
  return answer;
}

// Returns 0 for a client of another PID namespace, which has no number in this one.
uint32_t pidOf(sdbus::IProxy& bus, const char* client) {
  try {
    return askBus(bus, "GetConnectionUnixProcessID", client);
  } catch (const sdbus::Error& e) {
    if (e.getName() == kUnknownPid) return 0;
    throw;
  }
}

kj::AutoCloseFd duplicate(int fd) {
  int copy;
  KJ_SYSCALL(copy = fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return kj::AutoCloseFd(copy);
}

uint64_t inMicroseconds(kj::Duration duration) {
  return static_cast<uint64_t>(duration / kj::MICROSECONDS);
}

}  // namespace

LoginManager::LoginManager(kj::UnixEventPort& port, kj::Timer& timer, const kj::Clock& clock,
                           kj::StringPtr address, ShutdownDelay& delay, KeptLocks& kept)
    : port(port), timer(timer), clock(clock), delay(delay), kept(kept) {
  restoreLocks();
  connection = sdbus::createSessionBusConnectionWithAddress(textFor(address));
  object = sdbus::createObject(*connection, sdbus::ObjectPath{kObject});
  bus = sdbus::createProxy(*connection, sdbus::ServiceName{kBus}, sdbus::ObjectPath{kBusObject});
  auto answerInhibit = [this](const std::string& what, const std::string& who,
                              const std::string& why, const std::string& mode) {
    auto message = object->getCurrentlyProcessedMessage();
    Inhibitor lock{
        .what = textOf(what), .who = textOf(who), .why = textOf(why), .mode = textOf(mode)};
    kj::AutoCloseFd writing;
    auto refused = kj::runCatchingExceptions([&] {
      lock.uid = askBus(*bus, "GetConnectionUnixUser", message.getSender());
      lock.pid = pidOf(*bus, message.getSender());
      writing = inhibit(kj::mv(lock));
    });
    KJ_IF_MAYBE (e, refused) {
      log::warn("refused a lock", {{"error", messageOf(*e)}});
      throw sdbus::Error(sdbus::Error::Name{kInvalidArguments}, textFor(messageOf(*e)));
    }
    return sdbus::UnixFd(writing.release(), sdbus::adopt_fd);
  };
  auto answerList = [this] {
    std::vector<ListedLock> all;
    for (auto& entry : this->delay.inhibitors()) {
      auto& lock = entry.value;
      all.push_back(ListedLock{textFor(lock.what), textFor(lock.who), textFor(lock.why),
                               textFor(lock.mode), lock.uid, lock.pid});
    }
    return all;
  };
  object
      ->addVTable(
          sdbus::registerMethod("Inhibit")
              .withInputParamNames("what", "who", "why", "mode")
              .withOutputParamNames("pipe_fd")
              .implementedAs(answerInhibit),
          sdbus::registerMethod("ListInhibitors")
              .withOutputParamNames("inhibitors")
              .implementedAs(answerList),
          sdbus::registerProperty("InhibitDelayMaxUSec").withGetter([] {
            return inMicroseconds(kInhibitDelayMax);
          }),
          sdbus::registerProperty("PreparingForShutdown").withGetter([this] { return preparing; }),
          sdbus::registerSignal("PrepareForShutdown").withParameters<bool>("start"))
      .forInterface(sdbus::InterfaceName{kInterface});
  connection->requestName(sdbus::ServiceName{kService});
}

LoginManager::~LoginManager() noexcept(false) = default;

void LoginManager::Errors::taskFailed(kj::Exception&& e) {
  log::error("cannot release a lock", {{"error", messageOf(e)}});
}

void LoginManager::prepareForShutdown(bool begins) {
  preparing = begins;
  object->emitSignal("PrepareForShutdown")
      .onInterface(sdbus::InterfaceName{kInterface})
      .withArguments(begins);
}

// Returns the end of the pipe for the caller.
kj::AutoCloseFd LoginManager::inhibit(Inhibitor lock) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  lock.since = clock.now();
  auto who = kj::str(lock.who), pid = kj::str(lock.pid);
  take(kj::mv(lock), kj::mv(reading));
  keepLocks();
  log::info("lock", {{"service", who}, {"pid", pid}});
  return writing;
}

// Runs before login1 owns its name, and before a shutdown is requested.
void LoginManager::restoreLocks() {
  for (auto& each : kept.restore()) {
    auto who = kj::str(each.lock.who), pid = kj::str(each.lock.pid);
    auto refused = kj::runCatchingExceptions([&] { take(kj::mv(each.lock), kj::mv(each.pipe)); });
    KJ_IF_MAYBE (e, refused) {
      log::warn("refused a kept lock", {{"error", messageOf(*e)}});
      continue;
    }
    log::info("restored a lock", {{"service", who}, {"pid", pid}});
  }
}

void LoginManager::take(Inhibitor lock, kj::AutoCloseFd pipe) {
  auto id = delay.take(kj::mv(lock));
  int fd = pipe;
  pipes.insert(id, kj::mv(pipe));
  held.add(awaitEnd(port, fd)
               .catch_([](kj::Exception&& e) {
                 log::warn("cannot watch a lock; treating it as released",
                           {{"error", messageOf(e)}});
               })
               .then([this, id] { release(id); }));
}

void LoginManager::release(Inhibitors::Id id) {
  delay.release(id);
  pipes.erase(id);
  keepLocks();
}

void LoginManager::keepLocks() {
  kj::Vector<KeptLocks::Reference> all;
  for (auto& entry : delay.inhibitors()) {
    all.add(KeptLocks::Reference{&entry.value, KJ_REQUIRE_NONNULL(pipes.find(entry.key))});
  }
  kept.replace(all);
}

kj::Promise<void> LoginManager::awaitEnd(kj::UnixEventPort& port, int pipe) {
  kj::UnixEventPort::FdObserver observer(port, pipe, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto readable = observer.whenBecomesReadable();
    char ignored[64];
    ssize_t size;
    KJ_NONBLOCKING_SYSCALL(size = read(pipe, ignored, sizeof ignored));
    if (size == 0) co_return;  // no process has the other end any more
    if (size < 0) co_await readable;
  }
}

// The observers are edge-triggered, so they are created first; then all pending work is done.
kj::Promise<void> LoginManager::run() {
  auto polled = connection->getEventLoopPollData();
  using Observer = kj::UnixEventPort::FdObserver;
  // Duplicates, because the library closes its descriptors when the connection is lost, before the
  // observers are gone.
  auto busFd = duplicate(polled.fd), wakeFd = duplicate(polled.eventFd);
  Observer bus(port, busFd, Observer::OBSERVE_READ_WRITE);
  Observer wake(port, wakeFd, Observer::OBSERVE_READ);
  for (;;) {
    auto readable = bus.whenBecomesReadable(), woken = wake.whenBecomesReadable();
    while (connection->processPendingEvent()) {
    }
    polled = connection->getEventLoopPollData();
    auto next = readable.exclusiveJoin(kj::mv(woken));
    if (polled.events & POLLOUT) next = next.exclusiveJoin(bus.whenBecomesWritable());
    auto timeout = polled.getPollTimeout();  // ms; negative: no timeout
    if (timeout >= 0) {
      next = next.exclusiveJoin(timer.afterDelay(timeout * kj::MILLISECONDS));
    }
    co_await next;
  }
}

}  // namespace talos::login1
