#include "machined/login1/login-manager.h"

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
const char* const kInvalidArguments = "org.freedesktop.DBus.Error.InvalidArgs";

kj::String textOf(const std::string& text) {
  return kj::heapString(text.data(), text.size());
}
std::string textFor(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// As ListInhibitors has them: what, who, why, mode, uid, pid.
using ListedLock =
    sdbus::Struct<std::string, std::string, std::string, std::string, uint32_t, uint32_t>;

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
                           kj::StringPtr address, ShutdownDelay& delay)
    : port(port), timer(timer), clock(clock), delay(delay) {
  connection = sdbus::createSessionBusConnectionWithAddress(textFor(address));
  object = sdbus::createObject(*connection, sdbus::ObjectPath{kObject});
  auto answerInhibit = [this](const std::string& what, const std::string& who,
                              const std::string& why, const std::string& mode) {
    auto message = object->getCurrentlyProcessedMessage();
    Inhibitor lock{textOf(what), textOf(who), textOf(why), textOf(mode)};
    // What the bus says itself; for more the library would look into /proc, which is closed to us.
    lock.uid = static_cast<uint32_t>(message.getCredsEuid());
    lock.pid = static_cast<uint32_t>(message.getCredsPid());
    kj::AutoCloseFd writing;
    auto refused = kj::runCatchingExceptions([&] { writing = inhibit(kj::mv(lock)); });
    KJ_IF_MAYBE (e, refused) {
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
  log::warn("cannot follow a lock; it is taken for released", {{"error", messageOf(e)}});
}

void LoginManager::prepareForShutdown(bool begins) {
  preparing = begins;
  object->emitSignal("PrepareForShutdown")
      .onInterface(sdbus::InterfaceName{kInterface})
      .withArguments(begins);
}

// The end of the pipe that the caller gets.
kj::AutoCloseFd LoginManager::inhibit(Inhibitor lock) {
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC | O_NONBLOCK));
  kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
  lock.since = clock.now();
  log::info("lock", {{"service", lock.who}, {"pid", kj::str(lock.pid)}});
  auto id = delay.take(kj::mv(lock));
  held.add(awaitRelease(id, kj::mv(reading)));
  return writing;
}

kj::Promise<void> LoginManager::awaitRelease(Inhibitors::Id id, kj::AutoCloseFd pipe) {
  KJ_DEFER(delay.release(id));
  kj::UnixEventPort::FdObserver observer(port, pipe, kj::UnixEventPort::FdObserver::OBSERVE_READ);
  for (;;) {
    auto readable = observer.whenBecomesReadable();
    char ignored[64];
    ssize_t size;
    KJ_NONBLOCKING_SYSCALL(size = read(pipe, ignored, sizeof ignored));
    if (size == 0) co_return;  // nobody has the other end
    if (size < 0) co_await readable;
  }
}

// The observers are edge-triggered: they wait first, then all that is there is done.
kj::Promise<void> LoginManager::run() {
  auto polled = connection->getEventLoopPollData();
  using Observer = kj::UnixEventPort::FdObserver;
  // The library closes its own when the connection is lost, before the observer is gone.
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
    auto timeout = polled.getPollTimeout();  // ms; negative: none
    if (timeout >= 0) {
      next = next.exclusiveJoin(timer.afterDelay(timeout * kj::MILLISECONDS));
    }
    co_await next;
  }
}

}  // namespace talos::login1
