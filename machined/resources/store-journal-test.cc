#include "machined/resources/store-journal.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/vector.h>
#include <string.h>

#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

kj::Array<kj::byte> record(rpc::Change::Event event, kj::StringPtr id) {
  capnp::MallocMessageBuilder message;
  auto change = message.initRoot<rpc::Change>();
  change.setEvent(event);
  auto resource = change.initResource();
  resource.initMetadata().setId(id);
  resource.getSpec().initAs<rpc::HostnameSpecSpec>().setHostname(kj::str("host of ", id));
  return journal::encode(change.asReader());
}

struct Journal {
  kj::Vector<kj::byte> bytes;
  kj::Vector<size_t> ends;  // where each record ends

  Journal() {
    bytes.addAll(journal::heading());
    for (auto id : {"a"_kj, "bb"_kj, "a-longer-id-than-the-others"_kj, "d"_kj}) {
      bytes.addAll(record(rpc::Change::Event::UPDATED, id));
      ends.add(bytes.size());
    }
  }
};

struct Recovered {
  size_t valid;
  kj::Vector<kj::String> ids;
};

Recovered recover(kj::ArrayPtr<const kj::byte> bytes) {
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  if (words.size() > 0) memcpy(words.begin(), bytes.begin(), words.asBytes().size());
  Recovered result;
  result.valid = journal::recover(words, [&](rpc::Change::Reader change) {
    EXPECT_EQ(change.getResource().getSpec().getAs<rpc::HostnameSpecSpec>().getHostname(),
              kj::str("host of ", change.getResource().getMetadata().getId()));
    result.ids.add(kj::str(change.getResource().getMetadata().getId()));
  });
  return result;
}

TEST(JournalTest, WhatWasEncodedComesBackInOrder) {
  Journal journal;
  auto recovered = recover(journal.bytes);
  EXPECT_EQ(recovered.valid, journal.bytes.size());
  EXPECT_EQ(kj::strArray(recovered.ids, ","), "a,bb,a-longer-id-than-the-others,d");
}

// A crash or power cut may cut anywhere: the result must be a whole prefix, never half a record.
TEST(JournalTest, CutAtEveryByteIsSomeWholePrefix) {
  Journal journal;
  for (size_t cut = 0; cut <= journal.bytes.size(); ++cut) {
    size_t whole = 0;
    while (whole < journal.ends.size() && journal.ends[whole] <= cut) ++whole;
    auto recovered = recover(journal.bytes.asPtr().slice(0, cut));
    ASSERT_EQ(recovered.ids.size(), whole) << "cut at " << cut;
    ASSERT_EQ(recovered.valid, cut < 8      ? 0
                               : whole == 0 ? 8
                                            : journal.ends[whole - 1])
        << "cut at " << cut;
  }
}

TEST(JournalTest, AFlippedBitEndsTheJournalBeforeItsRecord) {
  Journal journal;
  for (size_t bit = 0; bit < 8 * journal.bytes.size(); bit += 3) {
    auto bytes = kj::heapArray(journal.bytes.asPtr());
    bytes[bit / 8] ^= 1 << bit % 8;
    size_t whole = 0;
    while (whole < journal.ends.size() && journal.ends[whole] <= bit / 8) ++whole;
    auto recovered = recover(bytes);
    ASSERT_EQ(recovered.ids.size(), bit / 8 < 8 ? 0 : whole) << "bit " << bit;
  }
}

TEST(JournalTest, ARecordThatItsReaderRefusesEndsTheJournal) {
  Journal journal;
  auto words = kj::heapArray<capnp::word>(journal.bytes.size() / 8);
  memcpy(words.begin(), journal.bytes.begin(), journal.bytes.size());
  int calls = 0;
  auto valid = journal::recover(words, [&](rpc::Change::Reader) {
    if (++calls == 3) KJ_FAIL_REQUIRE("not this one");
  });
  EXPECT_EQ(valid, journal.ends[1]);
  EXPECT_EQ(calls, 3);
}

TEST(JournalTest, OtherFilesAreNoJournal) {
  EXPECT_EQ(recover(kj::ArrayPtr<const kj::byte>()).valid, 0u);
  EXPECT_EQ(recover("#!/bin/sh\nexit 0\n"_kj.asBytes()).valid, 0u);
}

}  // namespace
}  // namespace talos::machined
