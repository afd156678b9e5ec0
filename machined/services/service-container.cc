#include "machined/services/service-container.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kAgain = 250 * kj::MILLISECONDS;
constexpr auto kImageTimeout = 20 * kj::SECONDS, kStartTimeout = 60 * kj::SECONDS,
               kRemoveTimeout = 10 * kj::SECONDS;

// Returns true if containerd is away or hangs; the supervisor restarts it in either case.
bool passes(const kj::Exception& e) {
  return kindOf(e) == ErrorKind::kUnavailable || kindOf(e) == ErrorKind::kDeadlineExceeded;
}

// Retries while containerd is away; without `timeout` for ever.
template <typename T>
kj::Promise<T> retryWithin(kj::Timer& timer, kj::Maybe<kj::Duration> timeout,
                           kj::Function<kj::Promise<T>()> attempt) {
  auto begun = timer.now();
  for (;;) {
    kj::Maybe<T> result;
    kj::Maybe<kj::Exception> wrong;
    co_await kj::evalNow([&]() { return attempt(); })
        .then([&](T value) { result = kj::mv(value); },
              [&](kj::Exception&& e) { wrong = kj::mv(e); });
    KJ_IF_MAYBE (r, result) co_return kj::mv(*r);
    KJ_IF_MAYBE (e, wrong) {
      bool late = false;
      KJ_IF_MAYBE (p, timeout) late = timer.now() - begun >= *p;
      if (late || !passes(*e)) kj::throwFatalException(kj::mv(*e));
    }
    co_await timer.afterDelay(kAgain);
  }
}

kj::Promise<bool> hasImage(Containerd& containerd, kj::StringPtr image) {
  auto unpacked = co_await unpackedImage(containerd, kj::str(image));
  co_return unpacked != nullptr;
}

}  // namespace

int waitStatus(unsigned exitStatus) {
  constexpr unsigned kSignalled = 128, kMostSignal = 64;
  if (exitStatus > kSignalled && exitStatus <= kSignalled + kMostSignal) {
    return static_cast<int>(exitStatus - kSignalled);
  }
  return static_cast<int>(exitStatus & 0xff) << 8;
}

kj::String ContainerBody::startedMessage(int pid) const {
  return kj::str("Started ", name, " (PID ", pid, ") for container ", id);
}

kj::Promise<void> ContainerBody::prepare(kj::Function<void(kj::StringPtr)> note) {
  auto wanted = spec();
  if (wanted.extension != nullptr) co_return;  // its root is a folder of the node
  auto image = kj::mv(wanted.image);
  auto attempt = [&]() { return hasImage(containerd, image); };
  bool unpacked = co_await retryWithin<bool>(containerd.timer, kImageTimeout, kj::mv(attempt))
                      // the pull reports the error
                      .catch_([](kj::Exception&&) { return false; });
  if (unpacked) co_return;
  co_await needImage(containerd, kj::mv(image), kj::mv(note));
}

kj::Promise<ServiceBody::Started> ContainerBody::start(Environment environment, int output) {
  auto wanted = spec();
  wanted.id = kj::str(id);
  kj::Vector<kj::String> variables;
  for (auto& variable : environment) variables.add(kj::mv(variable));
  for (auto& variable : wanted.environment) variables.add(kj::mv(variable));
  wanted.environment = variables.releaseAsArray();
  unsigned tries = 0;
  auto running = co_await retryWithin<RunningContainer>(containerd.timer, kStartTimeout, [&]() {
    ++tries;
    return runContainer(containerd, wanted, output);
  });
  // If an earlier try of this call has started the task, the task is not a predecessor's.
  co_return Started{running.pid, running.adopted && tries == 1};
}

kj::Promise<kj::Maybe<int>> ContainerBody::find() {
  struct Found {
    kj::Maybe<int> pid;
  };
  auto attempt = [this]() -> kj::Promise<Found> {
    co_return Found{co_await findContainer(containerd, kj::str(id))};
  };
  auto found = co_await retryWithin<Found>(containerd.timer, nullptr, kj::mv(attempt));
  co_return found.pid;
}

kj::Promise<kj::Maybe<int>> ContainerBody::ended() {
  for (;;) {
    kj::Maybe<unsigned> status;
    co_await containerEnded(containerd, kj::str(id))
        .then([&](unsigned s) { status = s; },
              [&](kj::Exception&&) {});  // find() tells if it is gone
    KJ_IF_MAYBE (s, status) co_return waitStatus(*s);
    bool gone = false;
    co_await find().then([&](kj::Maybe<int> pid) { gone = pid == nullptr; },
                         [](kj::Exception&&) {});  // the loop retries
    if (gone) co_return nullptr;
    co_await containerd.timer.afterDelay(kAgain);
  }
}

kj::Promise<void> ContainerBody::signal(int number) {
  struct Done {};
  auto meant = life;
  auto attempt = [this, number, meant]() -> kj::Promise<Done> {
    if (meant != life) co_return Done();
    co_await signalContainer(containerd, kj::str(id), number).catch_([](kj::Exception&& e) {
      if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
    });  // NotFound: its exit is on its way
    co_return Done();
  };
  return retryWithin<Done>(containerd.timer, nullptr, kj::mv(attempt)).ignoreResult();
}

kj::Promise<void> ContainerBody::remove() {
  struct Done {};
  ++life;
  auto attempt = [this]() -> kj::Promise<Done> {
    co_await removeContainer(containerd, kj::str(id));
    co_return Done();
  };
  return retryWithin<Done>(containerd.timer, kRemoveTimeout, kj::mv(attempt)).ignoreResult();
}

}  // namespace talos::machined
