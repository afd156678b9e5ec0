// The joiner with a join token.
#include "apid/join/test-joiner.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;
using testing::text;

struct JoinTokenJoiner : testing::JoinerTest {
  ~JoinTokenJoiner() noexcept override {}
  pki::Pem key = pki::makeKey(pki::KeyType::kEd25519);

  JoinConfig withToken(kj::StringPtr its) {
    auto result = config();
    result.token = pki::Pem(kj::str("join-abcdef.0123456789abcdef"));
    result.key = pki::Pem(kj::str(its));
    return result;
  }
  kj::String fingerprint() {
    auto info = pki::inspectRequest(lastRequest);
    return kj::mv(info.fingerprint);
  }
  static kj::String fingerprintOf(kj::StringPtr its) {
    auto info = pki::inspectRequest(pki::makeRequest(its, {}));
    return kj::mv(info.fingerprint);
  }
};

// Catches: an interrupted join that is repeated with another key than the token was spent for; a
// renewal with another key, after which the node cannot use its token again.
TEST_F(JoinTokenJoiner, EveryRequestIsForTheSameKey) {
  storeFails = true;  // The answer arrives, and is lost.
  join(withToken(key));
  EXPECT_EQ(fingerprint(), fingerprintOf(key));
  lastRequest = nullptr;
  storeFails = false;
  pass(5 * kj::SECONDS);
  EXPECT_TRUE(now().ready);
  EXPECT_EQ(fingerprint(), fingerprintOf(key));
  lastRequest = nullptr;
  pass(13 * kj::HOURS);
  EXPECT_EQ(storedCount, 2u);
  EXPECT_EQ(fingerprint(), fingerprintOf(key));
}

// Catches: a request with a key that is not stored; a node that does not continue when the key is
// stored.
TEST_F(JoinTokenJoiner, WaitsForItsKey) {
  auto& joiner = join(withToken(""));
  EXPECT_THAT(text(now().message), HasSubstr("waiting for the key of the join"));
  pass(1 * kj::MINUTES);
  EXPECT_EQ(asked.size(), 0u);
  joiner.setConfig(withToken(key));
  scope.poll();
  EXPECT_TRUE(now().ready);
  EXPECT_EQ(fingerprint(), fingerprintOf(key));
}

}  // namespace
}  // namespace talos::apid
