// A value of META changed, as machined does it: the partition is read, and each of its two copies
// is written and flushed before the next one is. Beside it what no such format can do without: the
// same bytes written and flushed twice.
//
//   meta-bench FOLDER [RUNS]   the partition is a file in this folder, which should be on a disk;
//   prints
//                              {"ours":MS,"theirs":MS,"bytes":N}, medians of the runs, made in turn
//
// link: machined-disk-volumes
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "machined/disk/devices/meta-partition.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/devices/test-sysfs.h"
#include "tests/bench/arguments.h"

namespace talos::machined {
namespace {

constexpr uint32_t kTag = 40;

double millisecondsOf(kj::FunctionParam<void()> work) {
  auto now = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
  };
  auto began = now();
  work();
  return now() - began;
}

double median(kj::Vector<double>& all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

struct Folder {
  explicit Folder(kj::StringPtr parent) : path(kj::str(parent, "/meta-bench-XXXXXX")) {
    KJ_REQUIRE(mkdtemp(path.begin()) != nullptr, path);
  }
  ~Folder() noexcept {
    unlink(file("vda1").cStr());
    unlink(file("floor").cStr());
    rmdir(path.cStr());
  }
  kj::String file(kj::StringPtr name) const { return kj::str(path, "/", name); }
  // Makes the file with all its bytes on the disk already, as a partition has them.
  kj::AutoCloseFd make(kj::StringPtr name) const {
    int raw;
    KJ_SYSCALL(raw = open(file(name).cStr(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
    kj::AutoCloseFd fd(raw);
    auto zeros = kj::heapArray<kj::byte>(kMetaBytes);
    memset(zeros.begin(), 0, zeros.size());
    write(fd, 0, zeros);
    return fd;
  }
  static void write(int fd, off_t offset, kj::ArrayPtr<const kj::byte> bytes) {
    ssize_t n;
    KJ_SYSCALL(n = pwrite(fd, bytes.begin(), bytes.size(), offset));
    KJ_REQUIRE(n == static_cast<ssize_t>(bytes.size()), n);
    KJ_SYSCALL(fdatasync(fd));
  }
  kj::String path;
};

void run(kj::StringPtr parent, unsigned runs) {
  Folder folder(parent);
  folder.make("vda1");
  auto floor = folder.make("floor");
  Sysfs sys;
  sys.disk("vda", "8192\n");
  sys.partition("vda", "vda1", "META");
  auto io = kj::setupAsyncIo();
  auto& timer = io.provider->getTimer();
  ReadPool pool(timer, {}, [](kj::StringPtr) {});
  MetaPartition meta(timer, sys.root, folder.path);
  auto change = [&](unsigned to) {
    auto value = kj::str("value ", to);
    meta.write(pool.of(0), kTag, kj::heapArray(value.asBytes())).wait(io.waitScope);
  };
  auto bytes = kj::heapArray<kj::byte>(kMetaCopyBytes);
  memset(bytes.begin(), 'x', bytes.size());
  change(0);
  kj::Vector<double> ours, theirs;
  for (unsigned i = 1; i <= runs; ++i) {
    ours.add(millisecondsOf([&] { change(i); }));
    theirs.add(millisecondsOf([&] {
      Folder::write(floor, 0, bytes);
      Folder::write(floor, kMetaCopyBytes, bytes);
    }));
  }
  auto read = meta.read(pool.of(0), kTag).wait(io.waitScope);
  KJ_REQUIRE(read.size() == 1 && kj::str(read[0].value.asChars()) == kj::str("value ", runs));
  printf("{\"ours\":%.2f,\"theirs\":%.2f,\"bytes\":%zu}\n", median(ours), median(theirs),
         2 * kMetaCopyBytes);
}

}  // namespace
}  // namespace talos::machined

int main(int argc, char** argv) {
  return talos::bench::runMain(argc, argv, "meta-bench", "FOLDER [RUNS]", [](auto& arguments) {
    arguments.expect(1, 2);
    talos::machined::run(arguments.text(1), arguments.numberOr(50, 2, "RUNS", 1, 10000));
  });
}
