#include "machined/disk/devices/meta-partition.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/devices/storage-server.h"
#include "machined/disk/devices/test-sysfs.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

// A machine whose partitions are files.
struct MetaPartitions : public testing::Test {
  Sysfs sys;
  TestTree dev;
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  ReadPool pool{timer, {.threads = 2, .mostThreads = 2}, [](kj::StringPtr) {}};
  MetaPartition meta{timer, sys.root, dev.root};
  NewRecoveryKey recovery = [](kj::String volume, unsigned slot) -> kj::Promise<kj::String> {
    return kj::str("opens ", volume, " ", slot);
  };
  WipeDevices wipe = [](kj::Vector<kj::String> names, bool zeroes,
                        kj::Function<void(kj::StringPtr)> say) -> kj::Promise<void> {
    if (names[0] == "vda") return error(ErrorKind::kFailedPrecondition, "vda is used");
    for (auto& name : names) say(kj::str(zeroes ? "zeroed " : "wiped ", name));
    return kj::READY_NOW;
  };
  rpc::Storage::Client storage = serveStorage(pool, meta, recovery.reference(), wipe.reference(),
                                              ClientCalls::alone(), sys.root);

  ~MetaPartitions() noexcept override {}
  MetaPartitions() {
    sys.disk("vda", "8192\n");
    sys.disk("vdb", "8192\n");
    partition("vda3", "BOOT", kMetaBytes);
  }
  void partition(kj::StringPtr name, kj::StringPtr label, size_t size) {
    sys.partition(kj::heapString(name.slice(0, 3)), name, label);
    dev.file(name, "");
    ASSERT_EQ(0, truncate(dev.at(name).cStr(), static_cast<off_t>(size)));
  }

  kj::Promise<void> write(uint32_t key, kj::StringPtr value) {
    auto request = storage.writeMetaRequest();
    request.setKey(key);
    request.setValue(kj::heapArray(value.asBytes()));
    return request.send().ignoreResult();
  }
  kj::Promise<void> remove(uint32_t key) {
    auto request = storage.deleteMetaRequest();
    request.setKey(key);
    return request.send().ignoreResult();
  }
  // Returns "6=A 9=hello", or the failure.
  std::string read(uint32_t key = 0) {
    auto request = storage.readMetaRequest();
    request.setKey(key);
    std::string text;
    auto failure = of(request.send().then([&](auto&& answer) {
      for (auto value : answer.getValues()) {
        if (!text.empty()) text += ' ';
        text += kj::str(value.getKey(), '=', value.getValue().asChars()).cStr();
      }
    }));
    return failure == "ok" ? text : failure;
  }
  std::string of(kj::Promise<void> call) {
    std::string outcome = "ok";
    call.then([]() {},
              [&](kj::Exception&& e) {
                outcome = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
              })
        .wait(io.waitScope);
    return outcome;
  }
};

// Catches: a node in a container that uses a disk of its host, or keeps nothing; a node without a
// file from its launcher that reports damage.
TEST_F(MetaPartitions, OrAFile) {
  partition("vda4", "META", kMetaBytes);
  auto file = MetaPartition::inFile(timer, dev.at("meta"));
  auto storage = serveStorage(pool, file, recovery.reference(), wipe.reference(),
                              ClientCalls::alone(), sys.root);
  std::swap(storage, this->storage);
  EXPECT_THAT(of(write(9, "x")), HasSubstr("this node has no META: "));
  EXPECT_THAT(read(), HasSubstr("FailedPrecondition"));
  dev.file("meta", "");
  ASSERT_EQ(0, truncate(dev.at("meta").cStr(), kMetaBytes));
  EXPECT_EQ("", read());
  EXPECT_EQ("ok", of(write(9, "hello")));
  EXPECT_EQ("9=hello", read());
  std::swap(storage, this->storage);
  EXPECT_EQ("", read()) << "of the partition";
}

// Catches: a value that only this process sees; a key that removes another key's value; mixed-up
// vectors; a missing key that is reported as deleted.
TEST_F(MetaPartitions, KeepsValues) {
  partition("vda4", "META", kMetaBytes);
  EXPECT_EQ("", read());
  EXPECT_EQ("ok", of(write(9, "hello")));
  EXPECT_EQ("ok", of(write(6, "A")));
  EXPECT_EQ("ok", of(write(4294967295, "")));
  EXPECT_EQ("6=A 9=hello 4294967295=", read());
  EXPECT_EQ("9=hello", read(9));
  auto bytes = readFile(dev.at("vda4"));
  MetaValues kept(bytes.asBytes());
  EXPECT_EQ("hello"_kj, kj::str(KJ_ASSERT_NONNULL(kept.get(9)).asChars()));
  EXPECT_EQ(0u, kept.writes().size()) << "copies differ";
  EXPECT_EQ("ok", of(write(9, "other")));
  EXPECT_EQ("ok", of(remove(6)));
  EXPECT_EQ("9=other 4294967295=", read());
  EXPECT_EQ("NotFound: META: there is no value with the key 6", read(6));
  EXPECT_EQ("NotFound: META: there is no value with the key 6", of(remove(6)));
  for (char c : readFile(dev.at("vda3"))) ASSERT_EQ(0, c) << "the partition BOOT was written";
}

// Catches: a record of the system among the values of users; a client that promises a reset in the
// name of the system, or lifts the refusal of older systems.
TEST_F(MetaPartitions, RecordsOfTheSystemAreNotThoseOfUsers) {
  partition("vda4", "META", kMetaBytes);
  auto floor = static_cast<uint32_t>(MetaTag::kVersionFloor);
  EXPECT_EQ("ok", of(write(9, "mine")));
  EXPECT_EQ("ok", of(meta.write(pool.of(0), floor, kj::heapArray("v1.2.0"_kj.asBytes()))));
  EXPECT_EQ("9=mine", read());
  EXPECT_EQ(kj::str(floor, "=v1.2.0").cStr(), read(floor));
  for (auto tag : {MetaTag::kReset, MetaTag::kFormatState, MetaTag::kFormatEphemeral,
                   MetaTag::kTrialFailure, MetaTag::kVersionFloor}) {
    auto key = static_cast<uint32_t>(tag);
    auto refused = kj::str("FailedPrecondition: META: ", key,
                           " is a record of the system, which only the system changes");
    EXPECT_EQ(refused.cStr(), of(write(key, "off")));
    EXPECT_EQ(refused.cStr(), of(remove(key)));
  }
  EXPECT_EQ(kj::str(floor, "=v1.2.0").cStr(), read(floor));
}

// Catches: an invalid request that changes the partition.
TEST_F(MetaPartitions, RefusesWithoutAChange) {
  partition("vda4", "META", kMetaBytes);
  EXPECT_EQ("ok", of(write(9, "hello")));
  auto before = readFile(dev.at("vda4"));
  EXPECT_THAT(
      of(write(10, kj::str(kj::repeat('x', 262100)))),
      HasSubstr("InvalidArgument: META: a value of 262100 bytes for the tag 10 does not fit"));
  EXPECT_THAT(of(write(6, kj::str(kj::repeat('x', 256)))), HasSubstr("InvalidArgument: "));
  EXPECT_EQ("InvalidArgument: META: 0 is not a valid tag", of(write(0, "x")));
  EXPECT_THAT(of(remove(10)), HasSubstr("NotFound: "));
  EXPECT_TRUE(before == readFile(dev.at("vda4")));
}

// Catches: a choice between two METAs, a failure that does not name them, and a META that is not
// made by us.
TEST_F(MetaPartitions, OnlyTheOneThatFits) {
  auto none =
      "FailedPrecondition: this node has no partition META; it is made when the node is installed "
      "on a disk";
  EXPECT_EQ(none, read());
  EXPECT_EQ(none, of(write(9, "x")));
  partition("vda4", "META", kMetaBytes - 1);
  auto small = kj::str("Internal: META: ", dev.at("vda4"),
                       " has 1048575 bytes; it must have 1048576 to 16777216");
  EXPECT_EQ(small.cStr(), read());
  EXPECT_EQ(small.cStr(), of(write(9, "x")));
  partition("vdb1", "META", kMetaBytes);
  auto two =
      "Conflict: META: more than one partition is named META: /dev/vda4, /dev/vdb1; "
      "remove the disks that are not this node's";
  EXPECT_EQ(two, read());
  EXPECT_EQ(two, of(write(9, "x")));
  EXPECT_EQ(two, of(remove(9)));
}

// Catches: a change that a node in a container confirms and does not keep.
TEST_F(MetaPartitions, AContainerHasNone) {
  storage = serveNoStorage();
  auto none = "FailedPrecondition: a node in a container has no partition META";
  EXPECT_EQ(none, read());
  EXPECT_EQ(none, of(write(9, "x")));
  EXPECT_EQ(none, of(remove(9)));
}

// Catches: a change that begins while the previous one is still being written, because its caller
// hung up.
TEST_F(MetaPartitions, OneChangeAtATime) {
  partition("vda4", "META", kMetaBytes);
  auto size = dev.at("size"), inSys = kj::str(sys.root, "/class/block/vda/size");
  ASSERT_EQ(0, mkfifo(size.cStr(), 0600));  // a read waits for a writer
  ASSERT_EQ(0, rename(size.cStr(), inSys.cStr()));
  kj::AutoCloseFd writer;
  {
    auto first = write(9, "first");
    EXPECT_FALSE(first.poll(io.waitScope));
    writer = kj::AutoCloseFd(open(inSys.cStr(), O_WRONLY));  // the first one has begun
  }
  sys.file("devices/x/block/vda/size", "8192\n");  // in the way of no other one
  auto second = write(10, "second");
  EXPECT_FALSE(second.poll(io.waitScope));
  // Runs on the pool's other thread, after the second change if it had begun.
  EXPECT_EQ(42, pool.run("counting", []() { return 42; }).wait(io.waitScope));
  EXPECT_FALSE(second.poll(io.waitScope));
  ASSERT_EQ(5, ::write(writer, "8192\n", 5));
  writer = nullptr;
  EXPECT_EQ("ok", of(kj::mv(second)));
  EXPECT_EQ("9=first 10=second", read());
}

// Catches: the key of another volume or slot than requested; a node without volumes that makes a
// key.
TEST_F(MetaPartitions, ServesRecoveryKeysToo) {
  auto request = storage.newRecoveryKeyRequest();
  request.setVolume("EPHEMERAL");
  request.setSlot(3);
  EXPECT_EQ(request.send().wait(io.waitScope).getPassphrase(), "opens EPHEMERAL 3");
  auto refused = serveNoStorage().newRecoveryKeyRequest().send().ignoreResult();
  auto failure = kj::runCatchingExceptions([&]() { refused.wait(io.waitScope); });
  EXPECT_EQ(ErrorKind::kFailedPrecondition, kindOf(KJ_ASSERT_NONNULL(failure)));
}

// Catches: a device that was not named; progress that the client does not get; a node in a
// container that wipes a disk of its host.
TEST_F(MetaPartitions, ServesWipesToo) {
  struct Sink final : rpc::ByteSink::Server {
    std::string& got;
    explicit Sink(std::string& got) : got(got) {}
    kj::Promise<void> write(WriteContext context) override {
      auto bytes = context.getParams().getBytes().asChars();
      got.append(bytes.begin(), bytes.size());
      return kj::READY_NOW;
    }
  };
  std::string got;
  auto wipe = [&](rpc::Storage::Client from, std::initializer_list<kj::StringPtr> names) {
    auto request = from.wipeRequest();
    auto list = request.initDevices(static_cast<unsigned>(names.size()));
    unsigned i = 0;
    for (auto name : names) list.set(i++, name);
    request.setZeroes(true);
    request.setProgress(kj::heap<Sink>(got));
    return of(request.send().ignoreResult());
  };
  EXPECT_EQ("ok", wipe(storage, {"vdb", "vdc1"}));
  EXPECT_EQ("zeroed vdb\nzeroed vdc1\n", got);
  EXPECT_EQ("FailedPrecondition: vda is used", wipe(storage, {"vda"}));
  EXPECT_THAT(wipe(serveNoStorage(), {"vdb"}),
              HasSubstr("NotFound: blockdevice \"vdb\" not found"));
  EXPECT_THAT(wipe(serveNoStorage(), {}), HasSubstr("InvalidArgument"));
}

}  // namespace
}  // namespace talos::machined
