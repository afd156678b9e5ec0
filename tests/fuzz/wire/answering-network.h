// A network on which every connection reaches the same hostile server: for fuzz targets of clients.
// Each connection gets the next answer of the input, which is cut at its end; the server reads and
// drops what the client sends.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <kj/timer.h>
#include <kj/vector.h>

namespace talos::fuzz {

class AnsweringNetwork final : public kj::LowLevelAsyncIoProvider {
 public:
  explicit AnsweringNetwork(kj::Timer& timer) : timer(timer) {}

  // The input is a list of answers: the length of each in two octets, then its bytes.
  void answers(kj::ArrayPtr<const kj::byte> input) {
    while (input.size() > 2) {
      size_t size = input[0] | input[1] << 8;
      input = input.slice(2, input.size());
      if (size > input.size()) size = input.size();
      left.add(input.slice(0, size));
      input = input.slice(size, input.size());
    }
  }
  unsigned connections() const { return next; }

  kj::Promise<kj::Own<kj::AsyncIoStream>> wrapConnectingSocketFd(Fd fd, const struct sockaddr*,
                                                                 uint, uint flags) override {
    if (flags & TAKE_OWNERSHIP) kj::AutoCloseFd closed(fd);
    return connect();
  }
  kj::Timer& getTimer() override { return timer; }

  kj::Own<kj::AsyncInputStream> wrapInputFd(Fd, uint) override { KJ_UNIMPLEMENTED("fuzz"); }
  kj::Own<kj::AsyncOutputStream> wrapOutputFd(Fd, uint) override { KJ_UNIMPLEMENTED("fuzz"); }
  kj::Own<kj::AsyncIoStream> wrapSocketFd(Fd, uint) override { KJ_UNIMPLEMENTED("fuzz"); }
  kj::Own<kj::ConnectionReceiver> wrapListenSocketFd(Fd, NetworkFilter&, uint) override {
    KJ_UNIMPLEMENTED("fuzz");
  }

 private:
  kj::Timer& timer;
  kj::Vector<kj::ArrayPtr<const kj::byte>> left;
  unsigned next = 0;

  kj::Promise<kj::Own<kj::AsyncIoStream>> connect() {
    auto pipe = kj::newTwoWayPipe();
    kj::ArrayPtr<const kj::byte> answer = nullptr;
    if (next < left.size()) answer = left[next];
    ++next;
    auto& end = *pipe.ends[0];
    auto writing = end.write(answer.begin(), answer.size()).then([&end] { end.shutdownWrite(); });
    auto reading = end.readAllBytes().ignoreResult();
    auto server = kj::joinPromises(kj::arr(kj::mv(writing), kj::mv(reading)))
                      .attach(kj::mv(pipe.ends[0]))
                      .eagerlyEvaluate([](kj::Exception&&) {});
    return kj::Own<kj::AsyncIoStream>(pipe.ends[1].attach(kj::mv(server)));
  }
};

// Drives the loop until `call` has ended, with a clock that moves only when nothing else does.
template <typename T>
kj::Promise<T> settled(kj::WaitScope& scope, kj::TimerImpl& timer, kj::Promise<T> call) {
  for (unsigned steps = 0; !call.poll(scope); ++steps) {
    KJ_ASSERT(steps < 1000, "a call does not end");
    timer.advanceTo(timer.now() + 10 * kj::SECONDS);
  }
  return call;
}

}  // namespace talos::fuzz
