#include "machined/logs/history/issued-certificate-log.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <sys/stat.h>

#include <string>

#include "common/base/append-only-frames.h"
#include "common/testing/later-message.h"
#include "common/testing/test-tree.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

struct IssuedRecordsTest : testing::Test {
  ~IssuedRecordsTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  Registry registry;
  TestClock clock;
  TestTree tree;
  kj::String file = tree.at("issued");

  static void issueTo(Store& store, kj::StringPtr serial, kj::StringPtr caller) {
    putRecord<rpc::IssuedCertificateSpec>(
        store, serial, [&](rpc::IssuedCertificateSpec::Builder spec) { spec.setCaller(caller); },
        "trustd");
  }
  struct Boot {
    Store store;
    IssuedRecords records;
    explicit Boot(IssuedRecordsTest& test)
        : store(test.registry, test.clock),
          records(test.uv, test.io.provider->getTimer(), store, [](kj::StringPtr) {}, test.file) {
      records.begin().wait(test.io.waitScope);
    }
    void issue(kj::StringPtr serial, kj::StringPtr caller) { issueTo(store, serial, caller); }
    std::string shown() {
      std::string all;
      for (auto record : store.list<rpc::IssuedCertificateSpec>()) {
        all += std::string(kj::str(record.id(), "=", record.getCaller(), " ").cStr());
      }
      return all;
    }
  };
  kj::Own<Boot> boot() { return kj::heap<Boot>(*this); }
};

// Catches: a file that could not be read once, after which certificates are no longer kept although
// the message announced a retry.
TEST_F(IssuedRecordsTest, AFileThatCannotBeReadIsTriedAgain) {
  auto b = boot();
  b->issue("0a", "10.0.0.2");
  b->records.end().wait(io.waitScope);
  auto away = tree.at("away");
  KJ_SYSCALL(rename(file.cStr(), away.cStr()));
  KJ_SYSCALL(mkdir(file.cStr(), 0700));
  b = boot();
  EXPECT_EQ("", b->shown());
  b->issue("0b", "10.0.0.3");
  KJ_SYSCALL(rmdir(file.cStr()));
  KJ_SYSCALL(rename(away.cStr(), file.cStr()));
  b->records.end().wait(io.waitScope);
  EXPECT_EQ("0a=10.0.0.2 0b=10.0.0.3 ", b->shown());
  b = boot();
  EXPECT_EQ("0a=10.0.0.2 0b=10.0.0.3 ", b->shown());
}

// Catches: records that a reboot loses, a removed record that is restored, and a record that trustd
// cannot remove because another owner has it.
TEST_F(IssuedRecordsTest, RecordsOutliveTheBoot) {
  auto b = boot();
  b->issue("0a", "10.0.0.2");
  b->issue("0b", "10.0.0.3");
  b->records.end().wait(io.waitScope);
  b = boot();
  EXPECT_EQ("0a=10.0.0.2 0b=10.0.0.3 ", b->shown());
  b->store.destroy("", typeName<rpc::IssuedCertificateSpec>(), "0a", "trustd");
  b->issue("0c", "10.0.0.4");
  b->records.end().wait(io.waitScope);
  b = boot();
  EXPECT_EQ("0b=10.0.0.3 0c=10.0.0.4 ", b->shown());
  struct stat info;
  ASSERT_EQ(0, stat(file.cStr(), &info));
  EXPECT_EQ(0600u, info.st_mode & 0777);
}

// Catches: a record that is on disk only after an orderly shutdown.
TEST_F(IssuedRecordsTest, TheyAreOnDiskAtOnce) {
  auto b = boot();
  b->issue("0a", "10.0.0.2");
  auto& timer = io.provider->getTimer();
  auto deadline = timer.now() + 10 * kj::SECONDS;
  while (tryReadFile(file).orDefault(kj::String()).size() == 0) {
    ASSERT_LT(timer.now(), deadline);
    timer.afterDelay(10 * kj::MILLISECONDS).wait(io.waitScope);
  }
  b = nullptr;  // a power cut
  EXPECT_EQ("0a=10.0.0.2 ", boot()->shown());
}

// Catches: a torn or damaged file that ends the boot, or hides later records.
TEST_F(IssuedRecordsTest, WhatIsNoRecordIsPassedOver) {
  auto b = boot();
  b->issue("0a", "10.0.0.2");
  b->records.end().wait(io.waitScope);
  auto content = readFile(file);
  auto nonsense = frameOf(1, "xxxxxxxxxxxxxxxx"_kj);
  auto all = kj::str(content, kj::heapString(nonsense.asChars()), "TBR1torn");
  writeFileAtomically(file, all, 0600);
  b = boot();
  EXPECT_EQ("0a=10.0.0.2 ", b->shown());
  b->issue("0b", "10.0.0.3");
  b->records.end().wait(io.waitScope);
  EXPECT_EQ("0a=10.0.0.2 0b=10.0.0.3 ", boot()->shown());
}

// Catches: records of a later release, after a downgrade to this one, that hide the following ones,
// and a kind of entry that is read as a certificate.
TEST_F(IssuedRecordsTest, ThoseOfALaterReleaseAreRead) {
  auto b = boot();
  b->issue("0a", "10.0.0.2");
  b->records.end().wait(io.waitScope);
  b = boot();
  b->issue("0b", "10.0.0.3");
  b->records.end().wait(io.waitScope);
  kj::Vector<kj::byte> all;
  uint64_t position = 7;  // the first one: an entry of another kind
  readFrames(readFile(file).asBytes(), [&](Piece piece) {
    auto words = kj::heapArray<capnp::word>(piece.bytes.size() / sizeof(capnp::word));
    memcpy(words.begin(), piece.bytes.begin(), words.asBytes().size());
    capnp::FlatArrayMessageReader message(words);
    auto known = message.getRoot<rpc::Resource>();
    all.addAll(frameOf(position, laterMessage<rpc::Resource>([&](rpc::Resource::Builder out) {
                         out.setMetadata(known.getMetadata());
                         out.getSpec().set(known.getSpec());
                       })));
    position = 1;
  });
  writeFileAtomically(file, all.asPtr().asChars(), 0600);
  EXPECT_EQ("0b=10.0.0.3 ", boot()->shown());
}

// Catches: a file that grows with every certificate without limit.
TEST_F(IssuedRecordsTest, TheFileIsBounded) {
  for (int round = 0; round < 40; ++round) {
    auto b = boot();
    for (int i = 0; i < 50; ++i) b->issue(kj::str(round, "-", i), "10.0.0.2");
    b->records.end().wait(io.waitScope);
    b = boot();
    for (int i = 0; i < 50; ++i) {
      b->store.destroy("", typeName<rpc::IssuedCertificateSpec>(), kj::str(round, "-", i),
                       "trustd");
    }
    b->records.end().wait(io.waitScope);
  }
  EXPECT_LT(readFile(file).size(), 80u << 10);
  EXPECT_EQ("", boot()->shown());
}

// Catches: a disk that fails once, after which no certificate of this boot is kept.
TEST_F(IssuedRecordsTest, ADiskThatFailsIsTriedAgain) {
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Store store(registry, clock);
  unsigned reports = 0;
  tree.directory("issued");
  IssuedRecords records(uv, timer, store, [&reports](kj::StringPtr) { ++reports; }, file);
  records.begin().wait(io.waitScope);
  EXPECT_EQ(1u, reports);
  ASSERT_EQ(0, rmdir(file.cStr()));
  issueTo(store, "0a", "10.0.0.2");
  auto& real = io.provider->getTimer();
  auto deadline = real.now() + 10 * kj::SECONDS;
  while (tryReadFile(file).orDefault(kj::String()).size() == 0) {
    ASSERT_LT(real.now(), deadline);
    timer.advanceTo(timer.now() + 5 * kj::SECONDS);
    real.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
  }
  EXPECT_EQ("0a=10.0.0.2 ", boot()->shown());
}

// Catches: a record that is too large for the file, after which no other record is kept.
TEST_F(IssuedRecordsTest, WhatIsTooLargeIsPassedOver) {
  auto b = boot();
  b->issue("0a", kj::str(kj::repeat('x', 40'000)));
  b->issue("0b", "10.0.0.3");
  b->records.end().wait(io.waitScope);
  EXPECT_EQ("0b=10.0.0.3 ", boot()->shown());
}

}  // namespace
}  // namespace talos::machined
