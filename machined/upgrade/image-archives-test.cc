// Archives from clients, and from a web server, both of which may be unreliable.
#include "machined/upgrade/image-archives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/encoding.h>
#include <openssl/bio.h>

#include <future>
#include <string>

#include "common/base/error.h"
#include "common/tar/test-tar.h"
#include "machined/confined/parser-client/test-web-server.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/upgrade/test-pulls.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr unsigned kPoolThreads = 4;  // of libuv

// Returns an archive as make installer-image writes it, but smaller.
kj::Array<kj::byte> installerArchive(size_t large = 300'000) {
  TestTar layer;
  for (auto name : kImageFiles) layer.file(kj::str("usr/install/", name), 0644, name);
  layer.file("usr/large", 0644, std::string(large, 'x').c_str());
  TestTar tar;
  tar.file("blobs/sha256/1", 0644, kj::heapString(layer.finish().asChars()));
  tar.file("blobs/sha256/2", 0644, R"({"layers":[{"digest":"sha256:1"}]})");
  tar.file("index.json", 0644, R"({"manifests":[{"digest":"sha256:2"}]})");
  return tar.finish();
}

kj::Array<kj::byte> digestBytes(kj::ArrayPtr<const kj::byte> bytes) {
  auto text = pki::sha256Of(bytes);
  return kj::decodeHex(text.slice(strlen("sha256:")).asArray());
}

// A client with a file; it counts how many reads wait at a time.
class TestSource final : public rpc::ByteSource::Server {
 public:
  TestSource(kj::ArrayPtr<const kj::byte> bytes, unsigned& atOnce) : bytes(bytes), atOnce(atOnce) {}
  kj::Promise<void> read(ReadContext context) override {
    auto params = context.getParams();
    EXPECT_LE(params.getSize(), kMostPieceBytes);
    if (++waiting > atOnce) atOnce = waiting;
    KJ_DEFER(--waiting);
    co_await kj::evalLater([]() {});
    auto begin = kj::min(params.getOffset(), bytes.size());
    context.getResults().setBytes(
        bytes.slice(begin, begin + kj::min(params.getSize(), bytes.size() - begin)));
  }

 private:
  kj::ArrayPtr<const kj::byte> bytes;
  unsigned& atOnce;
  unsigned waiting = 0;
};

// A client that sends the requested bytes, and only just in time.
class SlowSource final : public rpc::ByteSource::Server {
 public:
  explicit SlowSource(kj::Timer& timer) : timer(timer) {}
  kj::Promise<void> read(ReadContext context) override {
    co_await timer.afterDelay(50 * kj::SECONDS);
    context.getResults().initBytes(context.getParams().getSize());
  }

 private:
  kj::Timer& timer;
};

// Reports a start of a signature's body that no server has sent.
struct LyingForeign final : DirectForeign {
  bool lies = false;
  kj::Promise<kj::Maybe<HttpSource>> pieces(kj::Own<kj::AsyncIoStream> connection,
                                            const HttpSource& place, kj::StringPtr authorities,
                                            kj::Date now, uint64_t from, HttpProgress& progress,
                                            HttpPieces& to) override {
    if (!lies || !place.target.endsWith(".sig")) {
      return DirectForeign::pieces(kj::mv(connection), place, authorities, now, from, progress, to);
    }
    to.begins(uint64_t{1} << 50, 0);
    return kj::Maybe<HttpSource>(nullptr);
  }
};

class ArchivesTest : public testing::Test {
 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  LyingForeign foreign;
  RealImageArchives archives{
      {uv, timer, kj::systemPreciseCalendarClock(), io.provider->getNetwork(),
       [](kj::StringPtr host) -> kj::Promise<kj::Array<kj::String>> {
         return kj::arr(kj::str(host));
       },
       []() -> kj::Promise<kj::String> { return kj::String(); }, foreign, "/tmp"}};
  kj::Array<kj::byte> archive = installerArchive();
  std::string whole{archive.asChars().begin(), archive.size()};
  std::string digest = kj::encodeHex(digestBytes(archive)).cStr();
  uint64_t done = 0, size = 0;

  ~ArchivesTest() noexcept override {}

  // The time that passes on its clock in each millisecond.
  kj::Duration pace = 50 * kj::MILLISECONDS;
  std::string outcome(kj::Promise<ImageArchive> promise) {
    std::string result;
    auto clock = tick().eagerlyEvaluate(nullptr);
    promise
        .then(
            [&](ImageArchive got) {
              result = kj::str(got.parts.size(), " ", got.parts[0].size, " ", got.sha256).cStr();
            },
            [&](kj::Exception&& e) {
              result = kj::str(nameOf(kindOf(e)), ": ", messageOf(e)).cStr();
            })
        .wait(io.waitScope);
    return result;
  }
  kj::Promise<void> tick() {
    for (;;) {
      co_await io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS);
      timer.advanceTo(timer.now() + pace);
    }
  }
  std::string fetch(kj::StringPtr url, kj::StringPtr key = "") {
    return outcome(archives.fetch(KJ_ASSERT_NONNULL(archiveUrl(url, "")), kj::str(key),
                                  [this](uint64_t d, uint64_t s) {
                                    done = d;
                                    size = s;
                                  }));
  }
  kj::String at(TestServer& server) {
    return kj::str("http://127.0.0.1:", server.port(), "/i.tar#sha256=", digest.c_str());
  }
  std::string good() { return "5 7 " + digest; }
  unsigned atOnce = 0;
  std::string receive(ClientFile file, kj::StringPtr key = "") {
    return outcome(archives.receive(kj::str("./i.tar"), kj::mv(file), kj::str(key),
                                    [this](uint64_t d, uint64_t) { done = d; }));
  }
  ClientFile file(kj::ArrayPtr<const kj::byte> bytes) {
    return {kj::heap<TestSource>(bytes, atOnce), archive.size(), digestBytes(archive), nullptr};
  }
};

std::string urlProblem(kj::StringPtr url) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { archiveUrl(url, ""); })) {
    return messageOf(*e).cStr();
  }
  return "";
}

}  // namespace

// Catches: a reference that is taken for a URL; http without a digest; an invalid digest that is
// accepted, or a secret query that is shown.
TEST(ArchiveUrl, SaysWhatItNeeds) {
  EXPECT_TRUE(archiveUrl("registry.example/i:v1@sha256:12", "") == nullptr);
  std::string hex(64, 'A');
  auto url = KJ_ASSERT_NONNULL(archiveUrl(("http://h:81/a/b.tar#sha256=" + hex).c_str(), "t=1"));
  EXPECT_EQ(url.sha256, std::string(64, 'a').c_str());
  EXPECT_EQ(url.place.target, "/a/b.tar?t=1");
  EXPECT_EQ(url.place.shown, "http://h:81/a/b.tar");
  EXPECT_EQ(KJ_ASSERT_NONNULL(archiveUrl("https://h/a", "")).sha256, "");
  EXPECT_THAT(urlProblem("http://h/a"), HasSubstr("name its digest"));
  EXPECT_THAT(urlProblem("https://h/a#md5=12"), HasSubstr("must be sha256=<hex>"));
  EXPECT_THAT(urlProblem(("https://h/a#sha256=" + hex + "a").c_str()), HasSubstr("64 hex"));
  EXPECT_THAT(urlProblem("https://h/a#sha256="), HasSubstr("64 hex"));
  EXPECT_THAT(urlProblem("https://user@h/a"), HasSubstr("user name"));
}

// Catches: a file that is lost, shifted or not counted on its way.
TEST_F(ArchivesTest, AreFetched) {
  TestServer server(io, ok(whole));
  EXPECT_EQ(fetch(at(server)), good());
  EXPECT_EQ(done, archive.size());
  EXPECT_EQ(size, archive.size());
  EXPECT_THAT(server.asked, ElementsAre("GET /i.tar HTTP/1.1"));
}

// Catches: a download that starts at the beginning after each interruption, and never ends on a bad
// line; a second part that is put in the wrong place.
TEST_F(ArchivesTest, GoOnAfterAnInterruption) {
  TestServer server(io, ok(whole));
  unsigned asked = 0;
  server.behaviour = [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    auto total = std::to_string(whole.size());
    auto head = "HTTP/1.1 200 OK\r\nContent-Length: " + total + "\r\n\r\n";
    if (++asked == 1) return sendAll(stream, head + whole.substr(0, 200'000));
    auto from = 3 * kMostPieceBytes;  // the part that was received completely
    auto rest = whole.substr(from);
    return sendAll(stream, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                               std::to_string(from) + "-" + std::to_string(whole.size() - 1) + "/" +
                               total + "\r\nContent-Length: " + std::to_string(rest.size()) +
                               "\r\n\r\n" + rest);
  };
  EXPECT_EQ(fetch(at(server)), good());
  EXPECT_EQ(asked, 2u);
  asked = 0;
  server.behaviour = [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    auto head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(whole.size()) + "\r\n\r\n";
    return sendAll(stream, ++asked == 1 ? head + whole.substr(0, 200'000) : head + whole);
  };
  EXPECT_EQ(fetch(at(server)), good()) << "of a server that always sends all of it";
}

// Catches: a part of a part that counts as the whole, so that the image is damaged.
TEST_F(ArchivesTest, GoOnAfterAPartOfThePart) {
  unsigned asked = 0;
  TestServer server(io, [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    auto total = std::to_string(whole.size());
    if (++asked == 1) {
      return sendAll(stream, "HTTP/1.1 200 OK\r\nContent-Length: " + total + "\r\n\r\n" +
                                 whole.substr(0, 200'000));
    }
    auto from = (asked + 1) * kMostPieceBytes;  // the part that was received completely
    auto part = whole.substr(from, kMostPieceBytes);
    return sendAll(stream, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " +
                               std::to_string(from) + "-" + std::to_string(from + part.size() - 1) +
                               "/" + total + "\r\nContent-Length: " + std::to_string(part.size()) +
                               "\r\n\r\n" + part);
  });
  EXPECT_EQ(fetch(at(server)), good());
  EXPECT_GT(asked, 2u);
}

// Catches: an image that is used although it is not the named one; a server that is requested for
// ever; a page that says "not found" and is unpacked.
TEST_F(ArchivesTest, ThatAreNotWhatWasNamed) {
  auto other = whole;
  other[1000] ^= 1;
  TestServer server(io, ok(other));
  EXPECT_THAT(fetch(at(server)), HasSubstr("InvalidArgument: http://127.0.0.1:"));
  EXPECT_THAT(fetch(at(server)), HasSubstr("was damaged: its SHA-256 is "));
  server.behaviour = answer("404 Not Found", "Content-Length: 4\r\n", "none");
  EXPECT_THAT(fetch(at(server)), HasSubstr("NotFound: cannot fetch http://127.0.0.1:"));
  server.asked.clear();
  server.behaviour = answer("503 Busy", "Content-Length: 0\r\n", "");
  EXPECT_THAT(fetch(at(server)), HasSubstr("the server answered 503 Busy"));
  EXPECT_EQ(server.asked.size(), 5u);
  server.behaviour = answer("200 OK", "Content-Length: 1073741825\r\n", "x");
  EXPECT_THAT(fetch(at(server)), HasSubstr("InvalidArgument: cannot fetch "));
  EXPECT_THAT(fetch(at(server)), HasSubstr("larger than 1024 MiB"));
}

// Catches: a client's file that is read in parts too large for the memory, or accepted although it
// has changed; a file that is shorter than announced.
TEST_F(ArchivesTest, AreReceived) {
  archive = installerArchive(3'000'000);
  digest = kj::encodeHex(digestBytes(archive)).cStr();
  EXPECT_EQ(receive(file(archive)), good());
  EXPECT_EQ(done, archive.size());
  EXPECT_EQ(atOnce, 16u);
  auto changed = kj::heapArray(archive.asPtr());
  changed[5] ^= 1;
  EXPECT_THAT(receive(file(changed)), HasSubstr("InvalidArgument: ./i.tar is not the image"));
  EXPECT_THAT(receive(file(archive.slice(0, 1000))),
              HasSubstr("./i.tar was truncated while being read"));
  auto huge = file(archive);
  huge.size = kMostImageBytes + 1;
  EXPECT_THAT(receive(kj::mv(huge)), HasSubstr("1 byte to 1024 MiB"));
}

// Catches: a server that redirects in vain, or for ever; a page that is taken for an image.
TEST_F(ArchivesTest, AreFetchedFromWhereTheServerSendsUs) {
  TestServer server(io, ok(whole));
  server.behaviour = [&](kj::AsyncIoStream& stream) {
    bool first = server.asked.back() == "GET /i.tar HTTP/1.1";
    auto on = answer("302 Found", "Location: /other.tar\r\nContent-Length: 0\r\n", "");
    return (first ? on : ok(whole))(stream);
  };
  EXPECT_EQ(fetch(at(server)), good());
  EXPECT_THAT(server.asked, ElementsAre("GET /i.tar HTTP/1.1", "GET /other.tar HTTP/1.1"));
  server.asked.clear();
  server.behaviour = answer("302 Found", "Location: /i.tar\r\nContent-Length: 0\r\n", "");
  EXPECT_THAT(fetch(at(server)), HasSubstr("redirected more than 5 times"));
  EXPECT_EQ(server.asked.size(), 5 * 6u) << "five tries";
  server.behaviour = ok("");
  auto empty = kj::encodeHex(digestBytes(nullptr));
  EXPECT_THAT(fetch(kj::str("http://127.0.0.1:", server.port(), "/i.tar#sha256=", empty)),
              HasSubstr("/i.tar is empty"));
}

// Catches: a server that is awaited without end, or for longer than promised.
TEST_F(ArchivesTest, AServerThatGoesSilentIsGivenUp) {
  pace = 500 * kj::MILLISECONDS;
  TestServer server(io, [&](kj::AsyncIoStream&) -> kj::Promise<void> { return kj::NEVER_DONE; });
  auto begun = timer.now();
  EXPECT_THAT(fetch(at(server)), HasSubstr("nothing came for 60 s: "));
  EXPECT_EQ(server.asked.size(), 5u);
  auto pauses = (1 + 2 + 4 + 8) * kj::SECONDS;
  EXPECT_GE(timer.now() - begun, 5 * 60 * kj::SECONDS + pauses);
  EXPECT_LT(timer.now() - begun, 5 * 100 * kj::SECONDS + pauses);
}

// Catches: a server that is blamed for a slow disk.
TEST_F(ArchivesTest, ASlowDiskIsNotTheServersSilence) {
  pace = 500 * kj::MILLISECONDS;
  std::promise<void> released;
  auto gate = released.get_future().share();
  kj::Vector<kj::Promise<void>> busy;
  TestServer server(io, ok(whole));
  server.behaviour = [&](kj::AsyncIoStream& stream) {
    for (unsigned i = 0; i < kPoolThreads; ++i) {
      busy.add(uv.blocking([gate]() { gate.wait(); }).eagerlyEvaluate(nullptr));
    }
    return ok(whole)(stream);
  };
  auto release = timer.afterDelay(150 * kj::SECONDS)
                     .then([&]() { released.set_value(); })
                     .eagerlyEvaluate(nullptr);
  EXPECT_EQ(fetch(at(server)), good());
  EXPECT_EQ(server.asked.size(), 1u);
  EXPECT_GE(timer.now() - kj::origin<kj::TimePoint>(), 150 * kj::SECONDS) << "it was not slow";
}

// Catches: an archive and its signature that may each take all of the time; a client that keeps the
// node busy for days, by sending just before the end of each minute.
TEST_F(ArchivesTest, AllOfItIsOverInTime) {
  KeyPair own;
  archive = installerArchive(1'150'000);
  whole = std::string(archive.asChars().begin(), archive.size());
  digest = kj::encodeHex(digestBytes(archive)).cStr();
  TestServer server(io, ok(whole));
  server.behaviour = [&](kj::AsyncIoStream& stream) -> kj::Promise<void> {
    if (server.asked.size() > 1) {
      pace = 5 * kj::SECONDS;
      co_return co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    auto head = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(whole.size()) + "\r\n\r\n";
    co_await sendAll(stream, head);
    for (size_t at = 0; at < whole.size(); at += kMostPieceBytes) {
      pace = 5 * kj::SECONDS;
      co_await timer.afterDelay(50 * kj::SECONDS);
      pace = 0 * kj::SECONDS;  // the disk's time does not count on this clock
      co_await sendAll(stream, whole.substr(at, kMostPieceBytes));
      while (done < kj::min(whole.size(), at + kMostPieceBytes)) {
        co_await io.provider->getTimer().afterDelay(1 * kj::MILLISECONDS);
      }
    }
  };
  EXPECT_THAT(fetch(at(server), own.pem()), HasSubstr(".sig: timed out after 18 minutes"));
  EXPECT_LE(server.asked.size(), 4u);

  pace = 5 * kj::SECONDS;
  auto slow = file(archive);
  slow.size = 100 << 20;
  slow.bytes = kj::heap<SlowSource>(timer);
  auto begun = timer.now();
  EXPECT_THAT(receive(kj::mv(slow)), HasSubstr("did not send all of ./i.tar within 18 minutes"));
  EXPECT_LT(timer.now() - begun, 60 * kj::MINUTES) << "all of it would take 83";
}

// Catches: a process that names a position for the server to continue from, and the memory needed
// to get there.
TEST_F(ArchivesTest, WhereASignatureGoesOnIsNotBelieved) {
  KeyPair own;
  TestServer server(io, ok(whole));
  foreign.lies = true;
  EXPECT_THAT(fetch(at(server), own.pem()), HasSubstr("not the range that was requested"));
  EXPECT_EQ(server.asked.size(), 1u);
}

// Catches: an image that is not signed, or signed by another key, and used although the config
// names a key; a refusal that does not name the key and the bytes.
TEST_F(ArchivesTest, NeedASignatureWhenThereIsAKey) {
  KeyPair own, other;
  auto key = own.pem();
  std::string name = pki::VerifyKey(key).name().cStr();
  auto signedBy = [&](const KeyPair& pair) {
    auto f = file(archive);
    f.signature = pair.sign(archive);
    return f;
  };
  EXPECT_EQ(receive(signedBy(own), key), good());
  auto refused = receive(signedBy(other), key);
  EXPECT_THAT(refused, HasSubstr("PermissionDenied: ./i.tar is not signed by the key"));
  EXPECT_THAT(refused, HasSubstr("sha256:" + digest));
  EXPECT_THAT(refused, HasSubstr(name));
  EXPECT_THAT(receive(file(archive), key), HasSubstr("put it into ./i.tar.sig"));

  auto text = kj::encodeBase64(own.sign(archive), true);
  TestServer server(io, ok(whole));
  unsigned asked = 0;
  server.behaviour = [&](kj::AsyncIoStream& stream) {
    return (++asked % 2 == 1 ? ok(whole) : ok(text.cStr()))(stream);
  };
  EXPECT_EQ(fetch(at(server), key), good());
  EXPECT_THAT(server.asked, ElementsAre("GET /i.tar HTTP/1.1", "GET /i.tar.sig HTTP/1.1"));
  EXPECT_THAT(fetch(at(server), other.pem()), HasSubstr("PermissionDenied: http://127.0.0.1:"));
  server.behaviour = [&](kj::AsyncIoStream& stream) {
    return (++asked % 2 == 1 ? ok(whole) : answer("404 No", "Content-Length: 0\r\n", ""))(stream);
  };
  auto unsignedOne = fetch(at(server), key);
  EXPECT_THAT(unsignedOne, HasSubstr("PermissionDenied: http://127.0.0.1:"));
  EXPECT_THAT(unsignedOne, HasSubstr(".sig: the server answered 404 No"));
  EXPECT_THAT(unsignedOne, HasSubstr(name));
}

}  // namespace talos::machined
