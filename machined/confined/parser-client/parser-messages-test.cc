// Answers of a process that an attacker has taken over: each lie is refused, or harmless.
#include "machined/confined/parser-client/parser-messages.h"

#include <capnp/message.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <string>

#include "common/base/error.h"

namespace talos::machined {
namespace {

struct Answer {
  capnp::MallocMessageBuilder message;
  rpc::ParseAnswer::Builder out = message.initRoot<rpc::ParseAnswer>();
  rpc::ParseAnswer::Reader read() { return out.asReader(); }
};

template <typename F>
std::string disbelief(F&& f) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(kj::fwd<F>(f))) return messageOf(*e).cStr();
  return "believed";
}

// Catches: a line of a console or a log that a document writes.
TEST(Lies, TextsAreOnePrintableLine) {
  Answer answer;
  answer.out.initFailed().setMessage("a\nlevel=error \x1b[2Jb\x7f \xff");
  answer.out.getFailed().setKind(0xffff);
  EXPECT_EQ("a level=error ?[2Jb? ?", disbelief([&]() { readText(answer.read()); }));
  EXPECT_EQ(5u, oneLine("0123456789", 5).size());
  EXPECT_EQ("gr\xc3\xbc\xc3\x9f", oneLine("gr\xc3\xbc\xc3\x9f", 64));
  EXPECT_STREQ("a?2J", oneLine("a\xc2\x9b"
                               "2J",
                               64)
                           .cStr());
}

// Catches: an answer that is accepted for another question.
TEST(Lies, AnswerForAnotherRequestIsRefused) {
  Answer answer;
  answer.out.initSuperblock();
  for (auto& text : {disbelief([&]() { readConfig(answer.read(), nullptr); }),
                     disbelief([&]() { readRedacted(answer.read(), 64); }),
                     disbelief([&]() { readText(answer.read()); }),
                     disbelief([&]() { readVerdict(answer.read()); }),
                     disbelief([&]() { readGenerated(answer.read()); }),
                     disbelief([&]() { readAddresses(answer.read()); }),
                     disbelief([&]() { readSignatures(answer.read()); }),
                     disbelief([&]() { readSignedImage(answer.read()); }),
                     disbelief([&]() { readKms(answer.read(), true); }),
                     disbelief([&]() { readHttp(answer.read(), {}); })}) {
    EXPECT_EQ("invalid answer of the parser: it answers another question", text);
  }
}

// Catches: a document that writes a file outside of the folder of its service, or over the node's
// record of it, or that has a service of another name.
TEST(Lies, DocumentsOfExtensionsStayInTheirFolder) {
  struct Row {
    const char *name, *path, *result;
  };
  constexpr Row rows[] = {
      {"agent", "/etc/agent.conf", "believed"},
      {"../agent", "/a", "invalid answer of the parser: not the name of a service"},
      {"", "/a", "invalid answer of the parser: not the name of a service"},
      {"agent", "/../a", "invalid answer of the parser: not the path of a file"},
      {"agent", "/.digest", "invalid answer of the parser: not the path of a file"},
      {"agent", "a", "invalid answer of the parser: not the path of a file"},
      {"agent", "/", "invalid answer of the parser: not the path of a file"},
  };
  for (auto& row : rows) {
    Answer answer;
    auto config = answer.out.initExtensionConfigs(1)[0];
    config.setName(row.name);
    config.initFiles(1)[0].setMountPath(row.path);
    EXPECT_EQ(row.result, disbelief([&]() { readExtensionConfigs(answer.read()); }));
  }
  Answer many;
  many.out.initExtensionConfigs(kMostExtensionConfigs + 1);
  EXPECT_EQ("invalid answer of the parser: too many documents of extensions",
            disbelief([&]() { readExtensionConfigs(many.read()); }));
}

// Catches: a key of another size, which would become a passphrase; a sealed key that does not fit
// into a header.
TEST(Lies, KeysOfServersHaveTheirSizes) {
  auto answerOf = [](size_t size, bool seals) {
    Answer answer;
    answer.out.initBody(static_cast<unsigned>(size));
    return disbelief([&]() { readKms(answer.read(), seals); });
  };
  EXPECT_EQ("believed", answerOf(kKmsSecret, false));
  EXPECT_EQ("believed", answerOf(1, true));
  EXPECT_EQ("believed", answerOf(kMostKmsSealed, true));
  for (auto size : {size_t(0), kKmsSecret - 1, kKmsSecret + 1}) {
    EXPECT_EQ("invalid answer of the parser: a key of the wrong size", answerOf(size, false));
  }
  for (auto size : {size_t(0), kMostKmsSealed + 1}) EXPECT_NE("believed", answerOf(size, true));
}

// Catches: a digest that leads to another place; more signatures than the brain verifies.
TEST(Lies, SignaturesAreBounded) {
  auto answerOf = [](unsigned count, kj::StringPtr digest, size_t size) {
    Answer answer;
    auto list = answer.out.initSignatures(count);
    for (auto signature : list) {
      signature.setPayload(digest);
      signature.initSignature(static_cast<unsigned>(size));
    }
    return disbelief([&]() { readSignatures(answer.read()); });
  };
  auto good = kj::str("sha256:", kj::repeat('a', 64));
  EXPECT_EQ("believed", answerOf(kMostImageSignatures, good, kMostImageSignature));
  EXPECT_NE("believed", answerOf(kMostImageSignatures + 1, good, 1));
  EXPECT_NE("believed", answerOf(1, good, kMostImageSignature + 1));
  for (auto text : {""_kj, "sha256:12"_kj, "sha512:1"_kj, good.slice(1)}) {
    EXPECT_NE("believed", answerOf(1, text, 1)) << text.cStr();
    Answer answer;
    answer.out.setSignedImage(text);
    EXPECT_NE("believed", disbelief([&]() { readSignedImage(answer.read()); })) << text.cStr();
  }
  EXPECT_FALSE(isSha256(kj::str("sha256:", kj::repeat('A', 64))));
  EXPECT_FALSE(isSha256(kj::str(good, "a")));
}

// Catches: an invalid address that is connected to, or shown; a list without end.
TEST(Lies, AddressesAreAddresses) {
  auto answerOf = [](std::initializer_list<kj::StringPtr> texts) {
    Answer answer;
    auto list = answer.out.initAddresses(texts.size());
    unsigned i = 0;
    for (auto text : texts) list.set(i++, text);
    return disbelief([&]() { readAddresses(answer.read()); });
  };
  EXPECT_EQ("believed", answerOf({"192.0.2.7", "2001:db8::7"}));
  for (auto bad : {"192.0.2"_kj, "node-1"_kj, ""_kj, "192.0.2.7\n"_kj, "fe80::1%eth0"_kj}) {
    EXPECT_EQ("invalid answer of the parser: not a valid address", answerOf({"192.0.2.7", bad}))
        << bad.cStr();
  }
  EXPECT_EQ("invalid answer of the parser: the wrong number of addresses", answerOf({}));
  Answer answer;
  for (auto& size : {kMostAddresses, kMostAddresses + 1}) {
    auto list = answer.out.initAddresses(size);
    for (auto i : kj::indices(list)) list.set(i, "192.0.2.7");
    EXPECT_EQ(size == kMostAddresses,
              disbelief([&]() { readAddresses(answer.read()); }) == "believed");
  }
}

// Catches: a config with an unlimited number of problems, or without an error because they were not
// counted.
TEST(Lies, ProblemsAreCounted) {
  Answer answer;
  answer.out.initConfig().initErrors(1000);
  EXPECT_NE("believed", disbelief([&]() { readConfig(answer.read(), nullptr); }));
}

// Catches: a view that takes more memory than the largest config.
TEST(Lies, ViewsAreBounded) {
  Answer answer;
  auto machine = answer.out.initConfig().initView().initMachine();
  machine.initToken(kMostAnswerBytes - 4096);
  EXPECT_EQ("believed", disbelief([&]() { readConfig(answer.read(), nullptr); }));
  answer.out.initConfig().initView().initMachine().initToken(kMostAnswerBytes);
  EXPECT_NE("believed", disbelief([&]() { readConfig(answer.read(), nullptr); }));
}

// Catches: a clock that is set by a sample which no exchange can give.
TEST(Lies, SamplesArePossible) {
  constexpr int64_t kSecond = 1'000'000'000;
  struct Row {
    int64_t delay, distance;
    unsigned stratum, leap;
    bool good;
    int64_t offset = 0;
  } rows[] = {{kSecond, kSecond, 2, 0, true},
              {-1, 0, 2, 0, false},
              {0, -1, 2, 0, false},
              {11 * kSecond, 0, 2, 0, false},
              {INT64_MAX, INT64_MAX, 2, 0, false},
              {kSecond, 5 * kSecond, 2, 0, false},
              {0, 0, 0, 0, false},
              {0, 0, 16, 0, false},
              {0, 0, 2, 3, false},
              {0, 0, 2, 0, true, -68 * 365 * 86400 * kSecond},
              {0, 0, 2, 0, false, INT64_MAX},
              {0, 0, 2, 0, false, INT64_MIN}};
  for (auto& row : rows) {
    Answer answer;
    auto sample = answer.out.initSample();
    sample.setOffset(row.offset);
    sample.setDelay(row.delay);
    sample.setRootDistance(row.distance);
    sample.setStratum(static_cast<uint8_t>(row.stratum));
    sample.setLeap(static_cast<uint8_t>(row.leap));
    EXPECT_EQ(row.good, disbelief([&]() { readVerdict(answer.read()); }) == "believed")
        << row.delay << " " << row.distance << " " << row.stratum << " " << row.leap;
  }
  Answer kiss;
  kiss.out.initKiss().setAction(9);
  EXPECT_NE("believed", disbelief([&]() { readVerdict(kiss.read()); }));
}

// Catches: a place that smuggles a header in, or leaves https.
TEST(Lies, PlacesCanBeAskedFor) {
  struct Row {
    bool secure;
    const char* host;
    uint16_t port;
    const char* target;
    bool good;
  } rows[] = {{true, "a.example", 443, "/c?d", true},
              {false, "a.example", 80, "/", false},
              {true, "fd00::1", 8443, "/c", true},
              {true, "a b", 443, "/", false},
              {true, "a", 0, "/", false},
              {true, "a", 443, "c", false},
              {true, "a", 443, "/\r\nX: y", false},
              {true, "", 443, "/", false}};
  for (auto& row : rows) {
    Answer answer;
    auto place = answer.out.initMoved();
    place.setSecure(row.secure);
    place.setHost(row.host);
    place.setPort(row.port);
    place.setTarget(row.target);
    place.setAuthority("evil\r\n");
    place.setShown("evil\r\n");
    HttpSource from;
    from.secure = true;
    EXPECT_EQ(row.good, disbelief([&]() { readHttp(answer.read(), from); }) == "believed")
        << row.host << " " << row.target;
  }
  Answer answer;
  auto place = answer.out.initMoved();
  place.setHost("fd00::1");
  place.setPort(8443);
  place.setSecure(true);
  place.setTarget("/c?secret=1");
  auto source = readPlace(answer.read().getMoved());
  EXPECT_EQ("[fd00::1]:8443", source.authority);
  EXPECT_EQ("https://[fd00::1]:8443/c", source.shown);
}

// Catches: a partition at a place that a disk did not say; a name that changes the place.
TEST(Lies, PartitionsHaveTheirPlaces) {
  auto found = [](kj::StringPtr text) {
    Answer answer;
    auto disk = answer.out.initDisk();
    disk.setTable("gpt DISK");
    disk.initPartitions(1).set(0, text);
    return readFoundOnDisk(answer.read());
  };
  auto disk = found("3 1048576 512 ID 4 u-data 5 6");
  EXPECT_EQ("gpt", KJ_ASSERT_NONNULL(disk.table));
  EXPECT_EQ("DISK", disk.tableId);
  EXPECT_EQ("u-data 5 6", disk.partitions[0]);
  auto& place = disk.places[0];
  EXPECT_EQ("3 1048576 512 ID 4 u-data 5 6",
            kj::str(place.number, " ", place.begin, " ", place.bytes, " ", place.id, " ",
                    place.attributes, " ", place.name));
  auto bare = found("2 0 0 - 0 ");
  EXPECT_EQ("2", bare.partitions[0]);
  EXPECT_EQ("", kj::str(bare.places[0].id, bare.places[0].name));
  for (auto lie : {"", "u-data", "1 2", "-1 0 0 - 0 a", "99999 0 0 - 0 a", "1 0 0 - x a"}) {
    EXPECT_NE("believed", disbelief([&]() { found(lie); })) << lie;
  }
}

// Catches: a file system for mount(2) whose number has no name.
TEST(Lies, FileSystemsAreKnown) {
  Answer answer;
  auto superblock = answer.out.initSuperblock();
  superblock.setFound(true);
  superblock.setType(kFileSystems);
  EXPECT_NE("believed", disbelief([&]() { readSuperblockAnswer(answer.read()); }));
  superblock.setType(kFileSystems - 1);
  EXPECT_EQ("believed", disbelief([&]() { readSuperblockAnswer(answer.read()); }));
}

// Catches: names with escape sequences on the console.
TEST(Lies, EscapeSequencesInNamesAreRefused) {
  auto result = [](kj::StringPtr name, unsigned count = 1) {
    Answer answer;
    auto list = answer.out.initCleared(count);
    for (auto i : kj::indices(list)) list.set(i, name);
    return disbelief([&]() { readCleared(answer.read()); });
  };
  EXPECT_EQ("believed", result("guestinfo.talos.config"));
  EXPECT_EQ("believed", result("", 0));
  EXPECT_EQ("invalid answer of the parser: not the name of a variable", result("a\x1b[2J"));
  EXPECT_EQ("invalid answer of the parser: too many variables", result("a", 9));
}

// Catches: a report of megabytes that the brain sends on, or an empty one.
TEST(Lies, ReportsWithoutAValidSizeAreRefused) {
  auto result = [](size_t size) {
    Answer answer;
    answer.out.setBody(kj::str(kj::repeat('x', size)).asBytes());
    return disbelief([&]() { readReport(answer.read()); });
  };
  EXPECT_EQ("believed", result(1));
  EXPECT_EQ("believed", result(kMostReadyReport));
  for (auto size : {size_t{0}, kMostReadyReport + 1}) {
    EXPECT_EQ("invalid answer of the parser: a report of the wrong size", result(size));
  }
}

}  // namespace
}  // namespace talos::machined
