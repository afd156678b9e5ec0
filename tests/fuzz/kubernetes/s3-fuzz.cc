// A store with the API of S3, in which backups of etcd are kept.
//
// link: backupd-lib
#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "backupd/s3-store.h"
#include "common/base/error.h"
#include "common/testing/test-inline-disk.h"
#include "tests/fuzz/fuzz-target.h"

// Answers of a store with the S3 API.
FUZZ_TARGET(s3answer) {
  auto body = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { talos::backupd::readS3Page(body); })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
  auto error = talos::backupd::readS3Error(500, "Error", body);
  for (char c : error) KJ_ASSERT(c >= ' ' && c <= '~');
  return 0;
}

namespace {

using namespace talos;

// A network on which every connection reaches the same hostile server. Each connection gets the
// next answer of the input, which is cut at its end; the server reads and drops what the client
// sends.
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

constexpr kj::StringPtr kPage =
    "<ListBucketResult><IsTruncated>false</IsTruncated>"
    "<Contents><Key>a/1</Key></Contents><Contents><Key>a/2</Key></Contents></ListBucketResult>"_kj;

void expectUnavailable(kj::FunctionParam<void()> work) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(kj::mv(work))) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kUnavailable || kindOf(*e) == ErrorKind::kInvalidArgument,
              *e);
  }
}

// Returns the names in the store, which answers with the input; empty if it fails.
kj::Vector<kj::String> converse(kj::ArrayPtr<const kj::byte> input) {
  kj::UnixEventPort port;
  kj::EventLoop loop(port);
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  AnsweringNetwork network(timer);
  network.answers(input);
  InlineDisk disk;
  auto store = backupd::s3Store({{network, port, timer}, kj::nullClock(), disk},
                                {.endpoint = kj::str("http://10.5.0.9:9000"),
                                 .bucket = kj::str("backups"),
                                 .region = kj::str("here"),
                                 .accessKey = kj::str("access"),
                                 .secretKey = kj::str("secret"),
                                 .authorities = {}});
  kj::Vector<kj::String> names;
  expectUnavailable([&] { names = settled(scope, timer, store->list("a/")).wait(scope); });
  auto before = network.connections();
  expectUnavailable([&] { settled(scope, timer, store->remove("a/b")).wait(scope); });
  KJ_ASSERT(network.connections() == before + 1, "a redirect was followed");
  return names;
}

}  // namespace

// A store with the API of S3 that answers anything on its connections: status, headers, a
// redirect with any Location, a body of any length.
FUZZ_TARGET(s3store) {
  static bool right = [] {
    auto text = kj::str("HTTP/1.1 200 OK\r\nContent-Length: ", kPage.size(), "\r\n\r\n", kPage);
    kj::Vector<kj::byte> input;
    input.add(text.size() & 0xff);
    input.add(text.size() >> 8);
    input.addAll(text.asBytes());
    KJ_ASSERT(converse(input).size() == 2, "what is damaged must be right");
    return true;
  }();
  (void)right;
  auto names = converse(kj::arrayPtr(data, size));
  for (auto i : kj::indices(names)) {
    KJ_ASSERT(names[i].startsWith("a/") && (i == 0 || names[i - 1] < names[i]));
  }
  return 0;
}
