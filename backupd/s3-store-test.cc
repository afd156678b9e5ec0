#include "backupd/s3-store.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>

#include "backupd/test-s3-server.h"
#include "common/base/error.h"
#include "common/tls/pki.h"

namespace talos::backupd {
namespace {

struct S3StoreTest : public testing::Test {
  ~S3StoreTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  DiskThread disk;

  kj::Own<S3Store> storeOf(S3Server& server, kj::StringPtr scheme = "http",
                           kj::StringPtr authority = "") {
    S3Dependencies deps{{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer()},
                        kj::systemPreciseCalendarClock(),
                        disk};
    return s3Store(deps, {.endpoint = kj::str(scheme, "://127.0.0.1:", server.server.port),
                          .bucket = kj::str(server.bucket.c_str()),
                          .region = kj::str(server.region.c_str()),
                          .accessKey = kj::str(server.accessKey.c_str()),
                          .secretKey = kj::str(server.secretKey.c_str()),
                          .authorities = kj::str(authority)});
  }
  S3Upload file(const std::string& content) {
    Sha256 hash;
    hash.add(kj::arrayPtr(content.data(), content.size()).asBytes());
    return {content.size(), hash.hex(), [content](uint64_t at, size_t most) {
              auto rest = content.substr(std::min<size_t>(at, content.size()), most);
              return kj::heapArray(kj::arrayPtr(rest.data(), rest.size()).asBytes());
            }};
  }
  void put(S3Store& store, kj::StringPtr name, const std::string& content) {
    auto upload = file(content);
    store.put(name, upload).wait(io.waitScope);
  }
  kj::String list(S3Store& store, kj::StringPtr prefix) {
    return kj::strArray(store.list(prefix).wait(io.waitScope), " ");
  }
  std::string problemOf(S3Store& store, kj::StringPtr name, const std::string& content) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { put(store, name, content); })) {
      return messageOf(*e).cStr();
    }
    return "";
  }
  static bool has(const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  }
};

// Catches: a request that a store refuses; content that is changed on its way; pages after the
// first that are not read, or a page that is read twice.
TEST_F(S3StoreTest, PutsListsAndRemoves) {
  S3Server server(io);
  server.pageSize = 2;
  auto store = storeOf(server);
  std::string large(300'000, 'x');
  for (size_t i = 0; i < large.size(); i += 7) large[i] = static_cast<char>(i);
  put(*store, "a/large +~", large);
  EXPECT_EQ(large, server.objects["a/large +~"]);
  for (auto name : {"a/1", "a/2", "a/3", "a/4", "b/1"}) server.objects[name] = "x";
  EXPECT_EQ("a/1 a/2 a/3 a/4 a/large +~"_kj, list(*store, "a/"));
  EXPECT_EQ("b/1"_kj, list(*store, "b/"));
  EXPECT_EQ(""_kj, list(*store, "c/"));
  store->remove("a/2").wait(io.waitScope);
  store->remove("a/absent").wait(io.waitScope);
  EXPECT_EQ("a/1 a/3 a/4 a/large +~"_kj, list(*store, "a/"));
}

// Catches: an error without place, object or cause; an error that contains a secret.
TEST_F(S3StoreTest, SaysWhatTheStoreAnswers) {
  S3Server server(io);
  auto store = storeOf(server);
  server.replies = {{.status = 403, .body = "<Error><Code>AccessDenied</Code></Error>"},
                    {.status = 503, .unread = true},
                    {.closes = true},
                    {.status = 200, .body = "<html></html>"}};
  auto denied = problemOf(*store, "a", "x");
  EXPECT_TRUE(has(denied, "refused PUT /backups/a: 403 Text: AccessDenied")) << denied;
  EXPECT_TRUE(has(denied, "http://127.0.0.1:")) << denied;
  EXPECT_FALSE(has(denied, server.secretKey.c_str())) << denied;
  auto slow = problemOf(*store, "a", std::string(20u << 20, 'x'));
  EXPECT_TRUE(has(slow, "503 Text: SlowDown: later")) << slow;
  EXPECT_NE("", problemOf(*store, "a", std::string(20u << 20, 'x')));
  auto page = kj::runCatchingExceptions([&]() { list(*store, ""); });
  EXPECT_TRUE(has(messageOf(KJ_ASSERT_NONNULL(page)).cStr(), "no list of objects"));
  EXPECT_TRUE(server.objects.empty());
  server.server.stop();
  EXPECT_TRUE(has(problemOf(*store, "a", "x"), "Connection refused"));
  server.server.start();
  EXPECT_EQ("", problemOf(*store, "a", "x"));
}

// Catches: a store that is not verified, and gets a signed request.
TEST_F(S3StoreTest, ChecksTheStoresCertificate) {
  auto authority =
      pki::makeAuthority({.organization = "stores", .keyType = pki::KeyType::kEcdsaP256});
  pki::LeafOptions options{.commonName = "store"};
  options.addresses = kj::arr(kj::str("127.0.0.1"));
  auto leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
  S3Server server(io, {.certificate = leaf.certificate, .key = kj::StringPtr(leaf.key)});
  auto store = storeOf(server, "https", authority.certificate);
  EXPECT_EQ("", problemOf(*store, "a", "x"));
  auto other = pki::makeAuthority({.organization = "others"});
  store = storeOf(server, "https", other.certificate);
  EXPECT_TRUE(has(problemOf(*store, "b", "x"), "certificate"));
  EXPECT_EQ(1u, server.requests.size());
}

// Catches: a failure of this node's disk that is reported as the store's.
TEST_F(S3StoreTest, SaysThatTheFileIsCutOff) {
  S3Server server(io);
  auto store = storeOf(server);
  auto upload = file("short");
  upload.size = 100'000;
  auto failure = kj::runCatchingExceptions([&]() { store->put("a", upload).wait(io.waitScope); });
  auto problem = std::string(messageOf(KJ_ASSERT_NONNULL(failure)).cStr());
  EXPECT_TRUE(has(problem, "the encrypted snapshot is cut off")) << problem;
  EXPECT_TRUE(server.objects.empty());
}

// Catches: an endless list.
TEST_F(S3StoreTest, RefusesAListThatDoesNotGoOn) {
  S3Server server(io);
  auto store = storeOf(server);
  std::string same =
      "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents>"
      "</ListBucketResult>";
  server.replies = {{.status = 200, .body = same}, {.status = 200, .body = same}};
  auto failure = kj::runCatchingExceptions([&]() { list(*store, ""); });
  EXPECT_TRUE(has(messageOf(KJ_ASSERT_NONNULL(failure)).cStr(), "not sorted"));
  EXPECT_EQ(2u, server.requests.size());
}

kj::ArrayPtr<const char> bytes(kj::StringPtr text) {
  return text.asArray();
}

// Catches: a second page that is not requested; names that differ from the store's.
TEST(S3Answers, ReadsAPage) {
  auto page = readS3Page(bytes(
      "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<Name>backups</Name><IsTruncated>true</IsTruncated><Contents><Key>a&amp;b</Key><Size>1</"
      "Size>"
      "</Contents><Contents><Key>c</Key></Contents></ListBucketResult>"_kj));
  EXPECT_EQ("a&b c", kj::strArray(page.keys, " "));
  EXPECT_TRUE(page.more);
  page = readS3Page(bytes("<ListBucketResult/>"_kj));
  EXPECT_TRUE(page.keys.empty());
  EXPECT_FALSE(page.more);
}

// Catches: a login page that counts as an empty bucket.
TEST(S3Answers, RefusesWhatIsNoPage) {
  for (auto wrong : {""_kj, "<html></html>"_kj, "<ListBucketResult>"_kj,
                     "<!DOCTYPE a [<!ENTITY b 'c'>]><ListBucketResult>&b;</ListBucketResult>"_kj}) {
    EXPECT_TRUE(kj::runCatchingExceptions([&]() { readS3Page(bytes(wrong)); }) != nullptr)
        << wrong.cStr();
  }
}

// Catches: an error without the store's cause; an error that writes control characters to a
// terminal.
TEST(S3Answers, NamesTheReasonOfAnError) {
  EXPECT_EQ("403 Forbidden: SignatureDoesNotMatch: Check your key."_kj,
            readS3Error(403, "Forbidden",
                        bytes("<Error><Code>SignatureDoesNotMatch</Code>"
                              "<Message>Check your key.</Message></Error>"_kj)));
  EXPECT_EQ("502 Bad Gateway"_kj, readS3Error(502, "Bad Gateway", bytes("<html><p></html>"_kj)));
  EXPECT_EQ("400 ?[2J: a b"_kj, readS3Error(400, "\x1b[2J", bytes("<E><Code>a\nb</Code></E>"_kj)));
  auto deep = kj::str("<E><Message>", kj::repeat('x', 5000), "</Message></E>");
  EXPECT_EQ(300u, readS3Error(400, "", bytes(deep)).size());
}

}  // namespace
}  // namespace talos::backupd
