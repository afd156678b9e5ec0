#include "machined/disk/tpm/sealed-key.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/error.h"

namespace talos::tpm {
namespace {

Pcr pcrOf(unsigned number, kj::byte fill) {
  Pcr pcr{number, {}};
  pcr.value.fill(fill);
  return pcr;
}

std::string hexOf(const Digest& digest) {
  return kj::encodeHex(kj::arrayPtr(digest.data(), digest.size())).cStr();
}

SealedKey sample() {
  return {kj::heapArray<kj::byte>({0, 2, 1, 2}), kj::heapArray<kj::byte>({0, 1, 9}),
          kj::heapArray<Pcr>({pcrOf(4, 0x44), pcrOf(7, 0x77)}),
          kj::heapArray<kj::byte>({0, 0x0b, 5})};
}

std::string refusalOf(std::string text) {
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { readUserData(text.c_str()); })) {
    EXPECT_EQ(kindOf(*e), ErrorKind::kFailedPrecondition);
    return messageOf(*e).cStr();
  }
  return "it was read";
}

std::string with(std::string from, std::string to) {
  std::string text = userDataOf(sample()).cStr();
  auto at = text.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << from << " is not in " << text;
    return text;
  }
  return text.replace(at, from.size(), to);
}

// Catches: a policy that no TPM computes, so that no key ever opens: the digests were computed
// with sha256sum.
TEST(PcrPolicy, IsTheOneOfATpm) {
  EXPECT_EQ(hexOf(policyOf(nullptr)), std::string(64, '0'));
  Pcr zeros[] = {pcrOf(7, 0)};
  EXPECT_EQ(hexOf(digestOf(zeros)),
            "66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925");
  // SHA-256 of 32 zeros, 0000017f 00000001 000b 03 800000, and the digest above.
  EXPECT_EQ(hexOf(policyOf(zeros)),
            "8b5682d81b29435d08d79278150611dc7e5923b2fefcce684a09577b40130a8b");
}

TEST(PcrPolicy, OrdersNumbersAndNamesDifferences) {
  unsigned given[] = {7, 4, 7, 0};
  auto sorted = inOrder(given);
  ASSERT_EQ(sorted.size(), 3u);
  EXPECT_EQ(sorted[0], 0u);
  EXPECT_EQ(sorted[2], 7u);
  Pcr sealed[] = {pcrOf(0, 1), pcrOf(7, 2), pcrOf(9, 3)};
  Pcr now[] = {pcrOf(0, 1), pcrOf(7, 3), pcrOf(9, 4)};
  EXPECT_EQ(differences(sealed, now), "PCR 7 (Secure Boot), PCR 9");
  EXPECT_EQ(differences(sealed, sealed), "");
  EXPECT_TRUE(isUnused(pcrOf(0, 0).value));
  EXPECT_TRUE(isUnused(pcrOf(0, 0xff).value));
  EXPECT_FALSE(isUnused(pcrOf(0, 1).value));
}

// Catches: a field that is lost on the way to the header and back; a form that Talos does not
// read.
TEST(SealedKey, IsReadBack) {
  auto text = userDataOf(sample());
  EXPECT_EQ(
      text,
      R"({"keyslots":[],"sealed_blob_private":"AAIBAg==","sealed_blob_public":"AAEJ",)"
      R"("pcrs":[4,7],"pubkey_pcrs":[],"alg":"sha256","encryption_version":"1",)"
      R"("policy_hash":")" +
          std::string(kj::encodeBase64(kj::arrayPtr(policyOf(sample().pcrs).data(), 32)).cStr()) +
          R"(","key_name":"AAsF","pcr_values":[)"
          R"("REREREREREREREREREREREREREREREREREREREREREQ=",)"
          R"("d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3c="]})");
  auto read = readUserData(text);
  EXPECT_TRUE(read.privatePart.asPtr() == sample().privatePart);
  EXPECT_TRUE(read.publicPart.asPtr() == sample().publicPart);
  EXPECT_TRUE(read.keyName.asPtr() == sample().keyName);
  ASSERT_EQ(read.pcrs.size(), 2u);
  EXPECT_EQ(read.pcrs[1].number, 7u);
  EXPECT_TRUE(read.pcrs[1].value == sample().pcrs[1].value);
  auto bare = sample();
  bare.pcrs = nullptr;
  EXPECT_EQ(readUserData(userDataOf(bare)).pcrs.size(), 0u);
}

// Catches: a token that cryptsetup refuses, or whose content is not found again.
TEST(SealedKey, IsInAToken) {
  auto token = tokenOf("talos-tpm2", R"({"a":[1,"b"]})");
  EXPECT_EQ(token, R"({"type":"talos-tpm2","keyslots":[],"UserData":{"a":[1,"b"]}})");
  EXPECT_EQ(KJ_ASSERT_NONNULL(userDataIn(token)), R"({"a":[1,"b"]})");
  for (auto other : {"", "[]", "{", R"({"type":"talos-fresh","keyslots":[]})"}) {
    EXPECT_TRUE(userDataIn(other) == nullptr) << other;
  }
}

// Catches: a changed text that reaches the TPM, or ends the program without
// a message.
TEST(SealedKey, RefusesWhatIsNotOne) {
  auto text = std::string(userDataOf(sample()).cStr());
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(refusalOf(text.substr(0, size)).find("it is not"), std::string::npos) << size;
  }
  struct Case {
    std::string text, problem;
  };
  for (auto& c :
       {Case{"[]", "not an object"}, Case{"{}", "signature of a unified kernel image"},
        Case{with(R"("pubkey_pcrs":[])", R"("pubkey_pcrs":[11])"), "signature of a"},
        Case{with(R"("encryption_version":"1",)", ""), "signature of a"},
        Case{with("sha256", "sha1"), "alg is not sha256"},
        Case{with("[4,7]", "[7,4]"), "ascending order"},
        Case{with("[4,7]", "[4,4]"), "ascending order"},
        Case{with("[4,7]", "[4,24]"), "ascending order"},
        Case{with("[4,7]", "[4,1e300]"), "ascending order"},
        Case{with("[4,7]", "[-4,7]"), "ascending order"},
        Case{with("[4,7]", "[4.5,7]"), "ascending order"}, Case{with("[4,7]", "[4]"), "do not fit"},
        Case{with("[4,7]", "[4,8]"), "policy_hash does not fit"},
        Case{with("RERER", "RERES"), "policy_hash does not fit"},
        Case{with("RERER", "R"), "pcr_values is not a SHA-256"},
        Case{with("AAIBAg==", "*"), "sealed_blob_private is missing, or not base64"},
        Case{with(R"("AAsF")", "5"), "key_name is missing"},
        Case{std::string(kMostUserData + 1, ' '), "too many"}}) {
    EXPECT_NE(refusalOf(c.text).find(c.problem), std::string::npos) << refusalOf(c.text) << "\n"
                                                                    << c.text.substr(0, 500);
  }
}

}  // namespace
}  // namespace talos::tpm
