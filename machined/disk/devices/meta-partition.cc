#include "machined/disk/devices/meta-partition.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/memory/secret-array.h"
#include "machined/disk/devices/meta-values.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kMetaName = "META"_kj;
constexpr auto kMetaTimeout = 20 * kj::SECONDS;  // less than clients wait
constexpr size_t kMostMetaBytes = 16 << 20;      // the file is read as a whole

[[noreturn]] void refuseMeta(ErrorKind kind, kj::String problem) {
  fail(kind, kj::str("META: ", problem));
}

// --- everything below blocks, for the pool

class OpenPartition {
 public:
  OpenPartition(kj::StringPtr node, int flags)
      : node(kj::str(node)), fd(open(node.cStr(), flags | O_CLOEXEC)) {
    if (fd.get() < 0) failed("open");
    auto size = lseek(fd, 0, SEEK_END);
    if (size < 0) failed("seek in");
    if (size < static_cast<off_t>(kMetaBytes) || size > static_cast<off_t>(kMostMetaBytes)) {
      refuseMeta(ErrorKind::kInternal, kj::str(node, " has ", size, " bytes; it must have ",
                                               kMetaBytes, " to ", kMostMetaBytes));
    }
    bytes = secretArray(static_cast<size_t>(size));
    for (size_t done = 0; done < bytes.size();) {
      auto part = pread(fd, bytes.begin() + done, bytes.size() - done, static_cast<off_t>(done));
      if (part < 0 && errno == EINTR) continue;
      if (part == 0) errno = EIO;
      if (part <= 0) failed("read");
      done += static_cast<size_t>(part);
    }
  }
  KJ_DISALLOW_COPY_AND_MOVE(OpenPartition);

  MetaValues values() const { return MetaValues(bytes); }

  // The bytes are on the disk when it returns.
  void write(const MetaWrite& write) {
    for (size_t done = 0; done < write.bytes.size();) {
      auto part = pwrite(fd, write.bytes.begin() + done, write.bytes.size() - done,
                         static_cast<off_t>(write.offset + done));
      if (part < 0 && errno == EINTR) continue;
      if (part == 0) errno = EIO;
      if (part <= 0) failed("write");
      done += static_cast<size_t>(part);
    }
    if (fdatasync(fd) < 0) failed("flush");
  }

 private:
  kj::String node;
  kj::AutoCloseFd fd;
  kj::Array<kj::byte> bytes;

  [[noreturn]] void failed(kj::StringPtr action) {
    refuseMeta(ErrorKind::kInternal, kj::str("cannot ", action, " ", node, ": ", strerror(errno)));
  }
};

kj::Vector<MetaValue> readValues(kj::StringPtr node, uint32_t key) {
  auto values = OpenPartition(node, O_RDONLY).values();
  kj::Vector<MetaValue> result;
  for (auto tag : values.tags()) {
    if (key != 0 && key != tag) continue;
    result.add(MetaValue{tag, secretArray(KJ_ASSERT_NONNULL(values.get(tag)))});
  }
  if (key != 0 && result.empty()) {
    refuseMeta(ErrorKind::kNotFound, kj::str("there is no value with the key ", key));
  }
  return result;
}

// If `change` throws, nothing is written.
template <typename F>
void changeValues(kj::StringPtr node, F change) {
  OpenPartition partition(node, O_RDWR);
  auto values = partition.values();
  change(values);
  for (auto& write : values.writes()) partition.write(write);
}

}  // namespace

const BlockDevice& findMeta(kj::ArrayPtr<const BlockDevice> devices) {
  kj::Vector<const BlockDevice*> named;
  for (auto& device : devices) {
    if (device.partitionName == kMetaName) named.add(&device);
  }
  if (named.empty()) {
    fail(ErrorKind::kFailedPrecondition,
         "this node has no partition META; it is made when the node is installed on a disk");
  }
  if (named.size() > 1) {
    auto nodes = KJ_MAP(device, named) {
      return device->node();
    };
    refuseMeta(ErrorKind::kConflict,
               kj::str("more than one partition is named META: ", kj::strArray(nodes, ", "),
                       "; remove the disks that are not this node's"));
  }
  return *named[0];
}

namespace {

// The node of the partition, or the file.
kj::String placeOf(const kj::Maybe<kj::String>& file, kj::StringPtr sys, kj::StringPtr dev) {
  KJ_IF_MAYBE (path, file) {
    if (access(path->cStr(), F_OK) == 0) return kj::str(*path);
    fail(ErrorKind::kFailedPrecondition,
         kj::str("this node has no META: ", *path, ": ", strerror(errno)));
  }
  auto devices = readBlockDevices(sys);
  return kj::str(dev, "/", findMeta(devices).name);
}

}  // namespace

// One turn: its end is the beginning of the next one. It belongs to the work, and ends with the
// work, not when its caller gives up.
class MetaPartition::Turn {
 public:
  explicit Turn(State& shared) : state(kj::addRef(shared)) {
    auto pair = kj::newPromiseAndFulfiller<void>();
    state->busy = pair.promise.fork();
    end = kj::mv(pair.fulfiller);
  }
  ~Turn() noexcept(false) {
    state->busy = nullptr;
    end->fulfill();
  }
  KJ_DISALLOW_COPY_AND_MOVE(Turn);

 private:
  kj::Own<State> state;
  kj::Own<kj::PromiseFulfiller<void>> end;
};

template <typename F>
auto MetaPartition::waitAndRun(ReadPool::Client pool, F work)
    -> kj::Promise<decltype(work(kj::StringPtr()))> {
  for (;;) {
    kj::Maybe<kj::Promise<void>> end;
    KJ_IF_MAYBE (busy, state->busy) end = busy->addBranch();
    KJ_IF_MAYBE (e, end) {
      co_await *e;
    } else {
      break;
    }
  }
  co_return co_await pool.run(
      "using META", [turn = kj::heap<Turn>(*state), work = kj::mv(work), sys = kj::str(sys),
                     dev = kj::str(dev), file = file.map([](kj::String& path) {
                       return kj::str(path);
                     })]() mutable { return work(placeOf(file, sys, dev)); });
}

template <typename F>
auto MetaPartition::inTurn(ReadPool::Client pool, F work)
    -> kj::Promise<decltype(work(kj::StringPtr()))> {
  return within(timer, kMetaTimeout, waitAndRun(pool, kj::mv(work)),
                kj::str("META: the disk did not respond within ", kMetaTimeout / kj::SECONDS,
                        " s; a change may still be made"));
}

kj::Promise<kj::Vector<MetaValue>> MetaPartition::read(ReadPool::Client pool, uint32_t key) {
  return inTurn(pool, [key](kj::StringPtr node) { return readValues(node, key); });
}

kj::Promise<void> MetaPartition::write(ReadPool::Client pool, uint32_t key,
                                       kj::Array<kj::byte> value) {
  return inTurn(pool, [key, value = kj::mv(value)](kj::StringPtr node) {
    changeValues(node, [&](MetaValues& values) { values.set(key, value); });
  });
}

kj::Promise<void> MetaPartition::remove(ReadPool::Client pool, uint32_t key) {
  return inTurn(pool, [key](kj::StringPtr node) {
    changeValues(node, [key](MetaValues& values) {
      if (values.remove(key)) return;
      refuseMeta(ErrorKind::kNotFound, kj::str("there is no value with the key ", key));
    });
  });
}

}  // namespace talos::machined
