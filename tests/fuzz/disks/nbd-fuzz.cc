// link: tests-disks
// A QEMU that its guest has taken over: any bytes that it can send to the server of its disk, at
// once or after a right handshake. The server must come to rest, and the disk must not change
// except by requests that an honest client could have made.
#include <kj/debug.h>

#include "common/base/error.h"
#include "tests/disks/machine-disks.h"
#include "tests/disks/nbd.h"
#include "tests/disks/test-memory-medium.h"
#include "tests/fuzz/fuzz-target.h"

using namespace talos::disk;

namespace {

constexpr kj::byte kHandshake[] = {0,   0,   0,   3,                        // flags
                                   'I', 'H', 'A', 'V', 'E', 'O', 'P', 'T',  //
                                   0,   0,   0,   7,   0,   0,   0,   6,    // go
                                   0,   0,   0,   0,   0,   0};             // no name
constexpr size_t kRequest = 28;

// Makes of any bytes requests that are nearly right: the magic number, no large offsets and
// lengths.
kj::Array<kj::byte> tamed(kj::ArrayPtr<const kj::byte> bytes) {
  auto result = kj::heapArray(bytes);
  for (size_t at = 0; at + kRequest <= result.size();) {
    auto request = result.slice(at, at + kRequest);
    const kj::byte magic[] = {0x25, 0x60, 0x95, 0x13};
    memcpy(request.begin(), magic, sizeof magic);
    request[4] = request[6] = 0;
    memset(request.begin() + 16, 0, 6);
    request[24] = request[25] = 0;
    request[22] &= 0x3f, request[23] = 0, request[26] &= 0x07, request[27] = 0;
    size_t payload = request[7] == 1 ? request[26] << 8 : 0;
    at += kRequest + payload;
  }
  return result;
}

kj::Promise<void> drain(kj::AsyncIoStream& stream) {
  kj::byte buffer[4096];
  while (co_await stream.tryRead(buffer, 1, sizeof buffer) > 0) {
  }
}

}  // namespace

FUZZ_TARGET(nbd) {
  if (size < 2) return 0;
  auto bytes = kj::arrayPtr(data + 2, size - 2);
  static kj::EventLoop loop;
  static kj::WaitScope scope(loop);
  MachineDisks disks(8 << 10);
  auto& disk = disks.add(kj::heap<MemoryMedium>(16 * kSector));
  auto pipe = kj::newTwoWayPipe();
  auto find = [&](kj::StringPtr name) -> kj::Maybe<Export&> {
    if (name.size() > 0) return nullptr;
    return disk;
  };
  auto serving = serveNbd(*pipe.ends[0], find).eagerlyEvaluate([](kj::Exception&& e) {
    KJ_ASSERT(talos::kindOf(e) == talos::ErrorKind::kInvalidArgument, e);
  });
  auto reading = drain(*pipe.ends[1]).eagerlyEvaluate([](kj::Exception&&) {});
  kj::Promise<Cut> cutting = disks.cut(1 + data[0] % 32, data[1]);
  bool tame = (data[0] & 0x80) != 0, greet = tame || (data[0] & 0x40) != 0;
  auto said = tame ? tamed(bytes) : kj::heapArray(bytes);
  kj::Vector<kj::byte> all;
  if (greet) all.addAll(kj::ArrayPtr<const kj::byte>(kHandshake));
  all.addAll(said);
  auto writing =
      pipe.ends[1]->write(all.begin(), all.size()).eagerlyEvaluate([](kj::Exception&&) {});
  KJ_ASSERT(scope.poll(1'000'000) < 1'000'000, "the server does not come to rest");
  if (cutting.poll(scope)) {
    auto cut = cutting.wait(scope);
    KJ_ASSERT(cut.kept <= cut.unflushed && (!cut.torn || cut.kept > 0));
  }
  return 0;
}
