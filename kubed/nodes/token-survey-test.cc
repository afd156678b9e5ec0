#include "kubed/nodes/token-survey.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

namespace talos::kubed {
namespace {

using kube::Json;

constexpr int64_t kStarted = 1'764'000'000;  // 2025-11-24T16:00:00Z
constexpr kj::StringPtr kStartedText = "2025-11-24T16:00:00Z"_kj;

kj::String tokenOf(kj::StringPtr header) {
  return kj::str(kj::encodeBase64Url(header.asBytes()), ".e30.c2ln");
}

Json secretOf(kj::StringPtr name, kj::StringPtr token) {
  Json secret;
  secret["metadata"] = {{"namespace", "default"}, {"name", name.cStr()}};
  secret["data"]["token"] = kj::encodeBase64(token.asBytes()).cStr();
  return secret;
}

Json apiServer(kj::StringPtr started) {
  return {{"status",
           {{"containerStatuses",
             Json::array({{{"state", {{"running", {{"startedAt", started.cStr()}}}}}}})}}}};
}

Json podOf(kj::StringPtr name, kj::StringPtr created, int64_t lifetime) {
  Json pod;
  pod["metadata"] = {
      {"namespace", "a"}, {"name", name.cStr()}, {"creationTimestamp", created.cStr()}};
  Json source = {{"serviceAccountToken", {{"path", "token"}, {"expirationSeconds", lifetime}}}};
  pod["spec"]["volumes"] =
      Json::array({{{"name", "x"}, {"emptyDir", Json::object()}},
                   {{"name", "t"}, {"projected", {{"sources", Json::array({source})}}}}});
  pod["status"]["phase"] = "Running";
  return pod;
}

std::string names(const TokenSurvey::Holders& holders) {
  return kj::strArray(holders.names, " ").cStr();
}

// Catches: a token that is taken for one of the new key because its header cannot be read.
TEST(TokenSurvey, ATokenNamesItsKey) {
  EXPECT_EQ(keyIdOf(tokenOf(R"({"alg":"ES256","kid":"HrhgnwS6-_"})")).orDefault(kj::str("none")),
            "HrhgnwS6-_");
  for (auto text : {""_kj, "."_kj, "e30.e30.x"_kj, "!!.e30.x"_kj, "bm8ganNvbg.x.y"_kj}) {
    EXPECT_TRUE(keyIdOf(text) == nullptr) << text.cStr();
  }
  EXPECT_TRUE(keyIdOf(tokenOf(R"({"kid":7})")) == nullptr);
}

TEST(TokenSurvey, SecretsWithATokenOfAnotherKey) {
  TokenSurvey survey("new", kStarted);
  survey.addSecret(secretOf("b", tokenOf(R"({"kid":"old"})")));
  survey.addSecret(secretOf("renewed", tokenOf(R"({"kid":"new"})")));
  survey.addSecret(secretOf("a", "not a token"));
  survey.addSecret(secretOf("empty", ""));
  EXPECT_EQ(names(survey.secrets()), "default/a default/b");
  EXPECT_EQ(survey.secrets().others, 0u);
  for (auto i : kj::zeroTo(kMostTokenHolders)) {
    survey.addSecret(secretOf(kj::str("c", i), "not a token"));
  }
  EXPECT_EQ(survey.secrets().names.size(), kMostTokenHolders);
  EXPECT_EQ(survey.secrets().others, 2u);
}

// Catches: a pod whose token was signed before the last API server was started, and is accepted
// only because its key was not dropped yet; a pod for which a rotation waits for ever.
TEST(TokenSurvey, PodsThatMayHaveATokenOfBefore) {
  struct Row {
    const char* name;
    kj::StringPtr created;
    int64_t lifetime, after;  // of the last start
    bool counts;
  };
  for (auto& row : {Row{"older", "2025-11-24T15:59:00Z", 3607, 0, true},
                    Row{"just before it is renewed", "2025-11-24T15:59:00Z", 3607, 3906, true},
                    Row{"renewed", "2025-11-24T15:59:00Z", 3607, 3907, false},
                    Row{"clocks differ", "2025-11-24T16:00:10Z", 3607, 0, true},
                    Row{"newer", "2025-11-24T16:00:11Z", 3607, 0, false},
                    Row{"a long one", "2025-11-24T15:00:00Z", 700'000, 86'699, true},
                    Row{"renewed after a day", "2025-11-24T15:00:00Z", 700'000, 86'700, false},
                    Row{"negative", "2025-11-24T15:00:00Z", -5, 300, false},
                    Row{"no time", "", 3607, 0, true}}) {
    TokenSurvey survey("new", kStarted + row.after);
    survey.addApiServer(apiServer("2025-11-24T14:00:00Z"));
    survey.addApiServer(apiServer(kStartedText));
    survey.addApiServer(apiServer("2025-11-24T15:00:00Z"));
    survey.addPod(podOf("p", row.created, row.lifetime));
    EXPECT_EQ(names(survey.pods()), row.counts ? "a/p" : "") << row.name;
    EXPECT_EQ(survey.until(),
              row.counts ? kStarted + kj::min(row.lifetime, int64_t(86'400)) + 300 : 0)
        << row.name;
  }
  TokenSurvey survey("new", kStarted);
  survey.addApiServer(apiServer(kStartedText));
  TokenSurvey unknown("new", kStarted);
  unknown.addPod(podOf("p", "2025-11-24T15:00:00Z", 3607));
  EXPECT_EQ(names(unknown.pods()), "a/p") << "no API server is known";
  auto ended = podOf("ended", "2025-11-24T15:00:00Z", 3607);
  ended["status"]["phase"] = "Succeeded";
  survey.addPod(ended);
  auto without = podOf("without", "2025-11-24T15:00:00Z", 3607);
  without["spec"].erase("volumes");
  survey.addPod(without);
  EXPECT_EQ(names(survey.pods()), "");
}

}  // namespace
}  // namespace talos::kubed
