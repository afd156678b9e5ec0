#include "vipd/hcloud.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "vipd/hcloud-answers.h"
#include "vipd/test-hcloud.h"

namespace talos::vipd {
namespace {

struct Hetzner : testing::Test {
  ~Hetzner() noexcept override {}

  static const HcloudCertificate& certificate() {
    static HcloudCertificate made;
    return made;
  }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  HcloudModel api{io, certificate()};
  kj::TimerImpl stopped{kj::origin<kj::TimePoint>()};
  HcloudDependencies deps{
      .dial = {*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer()},
      .authorities = [] { return kj::str(certificate().authority.certificate); },
      .actionPause = 0 * kj::SECONDS};

  kj::Own<Provider> providerOf(kj::StringPtr address) {
    return hcloudProvider(deps, Ip::require(address), kj::str(api.token.c_str()), "127.0.0.1",
                          api.server.port);
  }
  void find(Provider& provider, kj::StringPtr instance) {
    provider.find({.instance = kj::str(instance), .addresses = {}}).wait(io.waitScope);
  }
  bool assign(Provider& provider) { return provider.assign().wait(io.waitScope); }
  std::vector<std::string> posts() {
    std::vector<std::string> all;
    for (auto& line : api.requests) {
      if (line.rfind("POST ", 0) == 0) all.push_back(line);
    }
    return all;
  }
  // Returns the kind and the message of find() for server 42.
  std::string failure(kj::StringPtr instance = "42") {
    auto provider = providerOf("203.0.113.7");
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { find(*provider, instance); })) {
      return kj::str(nameOf(kindOf(*e)), " ", messageOf(*e)).cStr();
    }
    return "found";
  }
};

using Lines = std::vector<std::string>;

// Catches: a floating IP that stays where it is; one that is assigned again and again.
TEST_F(Hetzner, AFloatingIpIsAssignedOnce) {
  api.floatingIpAt = 43;
  auto provider = providerOf("203.0.113.7");
  find(*provider, "42");
  EXPECT_EQ(posts(), Lines());
  EXPECT_TRUE(assign(*provider));
  EXPECT_EQ(42u, api.floatingIpAt);
  EXPECT_FALSE(assign(*provider));
  EXPECT_EQ(posts(), Lines{"POST /v1/floating_ips/7/actions/assign {\"server\":42}"});
}

// Catches: an alias that the API refuses, because another server has it; other aliases that are
// lost; a list that is written without need.
TEST_F(Hetzner, AnAliasLeavesTheOtherServerFirst) {
  api.aliases = {{42, {"10.0.0.8"}}, {43, {"10.0.0.9", "10.0.0.10"}}};
  auto provider = providerOf("10.0.0.9");
  find(*provider, "42");
  EXPECT_TRUE(assign(*provider));
  EXPECT_EQ(api.aliases[42], (Lines{"10.0.0.8", "10.0.0.9"}));
  EXPECT_EQ(api.aliases[43], (Lines{"10.0.0.10"}));
  EXPECT_FALSE(assign(*provider));
  EXPECT_EQ(2u, posts().size());
}

// Catches: an alias that this server got while the other one lost the address, and that the list of
// an earlier look removes.
TEST_F(Hetzner, AnAliasThatCameDuringTheMoveStays) {
  api.aliases = {{42, {}}, {43, {"10.0.0.9"}}};
  auto provider = providerOf("10.0.0.9");
  find(*provider, "42");
  api.joins = "10.0.0.8";
  EXPECT_TRUE(assign(*provider));
  EXPECT_EQ(api.aliases[42], (Lines{"10.0.0.8", "10.0.0.9"}));
}

// Catches: the list of a second address that was read before this one's change, and that removes
// the address; changes without end.
TEST_F(Hetzner, AnAliasIsAssignedOnlyWhenALookShowsIt) {
  auto provider = providerOf("10.0.0.9");
  find(*provider, "42");
  api.forgets = 1;
  EXPECT_TRUE(assign(*provider));
  EXPECT_EQ(api.aliases[42], Lines{"10.0.0.9"});
  api.aliases[42] = {};
  api.forgets = 100;
  auto failed = kj::runCatchingExceptions([&] { assign(*provider); });
  EXPECT_STREQ("10.0.0.9 is not the alias IP of this server alone after 6 changes",
               messageOf(KJ_ASSERT_NONNULL(failed)).cStr());
}

// Catches: a server that is not on the first page of the list.
TEST_F(Hetzner, ListsHavePages) {
  api.pageSize = 1;
  auto provider = providerOf("10.0.0.9");
  find(*provider, "43");
  EXPECT_TRUE(assign(*provider));
  EXPECT_EQ(api.aliases[43], Lines{"10.0.0.9"});
}

// Catches: a second change while the first one runs, which the API refuses; a failed change that
// counts as done.
TEST_F(Hetzner, ChangesAreAwaited) {
  api.polls = 2;
  api.aliases[43] = {"10.0.0.9"};
  auto provider = providerOf("10.0.0.9");
  find(*provider, "42");
  api.requests.clear();
  EXPECT_TRUE(assign(*provider));
  ASSERT_EQ(9u, api.requests.size());
  EXPECT_EQ(0u, api.requests[1].find("POST /v1/servers/43/"));
  EXPECT_EQ(api.requests[2], "GET /v1/actions/99");
  EXPECT_EQ(api.requests[3], "GET /v1/actions/99");
  EXPECT_EQ(0u, api.requests[4].find("GET /v1/servers?"));
  EXPECT_EQ(0u, api.requests[5].find("POST /v1/servers/42/"));
  EXPECT_EQ(api.requests[7], "GET /v1/actions/99");
  EXPECT_EQ(0u, api.requests[8].find("GET /v1/servers?"));

  api.actionError = "server locked";
  api.aliases = {{42, {}}, {43, {}}};
  auto failed = kj::runCatchingExceptions([&] { assign(*provider); });
  EXPECT_STREQ("/v1/servers/42/actions/change_alias_ips has failed: server locked",
               messageOf(KJ_ASSERT_NONNULL(failed)).cStr());
}

// Catches: an answer that stops the program, or counts as success; an error without call and cause;
// a token in an error because the API repeats it; calls that keep their pace when the API limits
// them.
TEST_F(Hetzner, WhatTheApiAnswers) {
  struct Row {
    HcloudModel::Reply reply;
    const char* result;
  } rows[] = {
      {{.status = 401,
        .body = R"({"error":{"code":"unauthorized","message":"no t0k3n-0f-the-pr0ject"}})"},
       "Unavailable GET /v1/servers?page=1&per_page=25: 401 Text: no *** (unauthorized)"},
      {{.status = 429,
        .body = R"({"error":{"code":"rate_limit_exceeded","message":"limit exceeded"}})"},
       "ResourceExhausted GET /v1/servers?page=1&per_page=25: 429 Text: limit exceeded "
       "(rate_limit_exceeded)"},
      {{.status = 503, .body = "<html>"},
       "Unavailable GET /v1/servers?page=1&per_page=25: 503 Text"},
      {{.status = 302}, "Unavailable GET /v1/servers?page=1&per_page=25: 302 Text"},
      {{.body = "{\"servers\":"}, "InvalidArgument the answer of Hetzner's API is not valid JSON"},
      {{.body = "{\"servers\":[]}"},
       "NotFound the project of the API token has no server with the id 42 of this machine; use a "
       "token of the right project"},
      {{.body = R"({"servers":[],"meta":{"pagination":{"next_page":1}}})"},
       "Unavailable /v1/servers: the pages do not end"},
      {{.body = std::string(kMostHcloudAnswer + 1, ' ')},
       "Unavailable GET /v1/servers?page=1&per_page=25: the answer is too long"},
  };
  for (auto& row : rows) {
    api.replies = {row.reply};
    EXPECT_EQ(failure(), row.result);
  }
  EXPECT_EQ(failure(), "found");
  EXPECT_EQ(failure("44"),
            "NotFound the project of the API token has no server with the id 44 of this machine; "
            "use a token of the right project");
}

// Catches: a token that another server gets.
TEST_F(Hetzner, TheApiIsVerified) {
  HcloudCertificate other;
  deps.authorities = [&] { return kj::str(other.authority.certificate); };
  EXPECT_NE(std::string::npos, failure().find("certificate")) << failure();
  EXPECT_EQ(api.requests, Lines());
}

// Catches: CAs that are read once, although the config adds the right one later.
TEST_F(Hetzner, TheAuthoritiesAreReadAgainAfterAFailure) {
  HcloudCertificate other;
  bool right = false;
  deps.authorities = [&] { return kj::str((right ? certificate() : other).authority.certificate); };
  auto provider = providerOf("203.0.113.7");
  EXPECT_THROW(find(*provider, "42"), kj::Exception);
  right = true;
  find(*provider, "42");
}

// Catches: an API that is away, and whose port answers nothing, which is not reported; a call
// without a deadline.
TEST_F(Hetzner, ACallHasADeadline) {
  HcloudDependencies late{
      .dial = {*io.lowLevelProvider, io.unixEventPort, stopped},
      .authorities = [] { return kj::str(certificate().authority.certificate); }};
  api.replies = {{.hangs = true}};
  auto provider = hcloudProvider(late, Ip::require("203.0.113.7"), kj::str(api.token.c_str()),
                                 "127.0.0.1", api.server.port);
  kj::String problem;
  auto finding = provider->find({.instance = kj::str("42"), .addresses = {}})
                     .catch_([&](kj::Exception&& e) { problem = messageOf(e); })
                     .eagerlyEvaluate(nullptr);
  while (api.requests.empty())
    io.provider->getTimer().afterDelay(kj::MILLISECONDS).wait(io.waitScope);
  stopped.advanceTo(stopped.now() + kHcloudCall);
  finding.wait(io.waitScope);
  EXPECT_EQ("GET /v1/servers?page=1&per_page=25: no answer within 10s"_kj, problem);
  api.server.stop();
  EXPECT_NE(std::string::npos, failure().find("Connection refused")) << failure();
}

// Catches: a call that the kernel still sends when the lease is lost.
TEST_F(Hetzner, ACallThatEndsIsDiscarded) {
  auto local = io.provider->getNetwork().parseAddress("127.0.0.1").wait(io.waitScope);
  auto listener = local->listen();
  auto provider = hcloudProvider(deps, Ip::require("203.0.113.7"), kj::str("t"), "127.0.0.1",
                                 uint16_t(listener->getPort()));
  auto finding =
      provider->find({.instance = kj::str("42"), .addresses = {}}).eagerlyEvaluate(nullptr);
  auto peer = listener->accept().wait(io.waitScope);
  kj::byte first;
  ASSERT_EQ(1u, peer->tryRead(&first, 1, 1).wait(io.waitScope));
  finding = nullptr;
  EXPECT_THROW((void)peer->readAllBytes().wait(io.waitScope), kj::Exception);
}

}  // namespace
}  // namespace talos::vipd
