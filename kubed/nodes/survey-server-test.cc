#include "kubed/nodes/survey-server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <string>
#include <vector>

#include "kubed/nodes/kubed-server.h"

namespace talos::kubed {
namespace {

class SurveyServerTest : public testing::Test {
 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::Vector<kj::Own<kj::PromiseFulfiller<SurveyServer::Message>>> reads;
  rpc::Kubernetes::Client client = kj::heap<SurveyServer>([this]() {
    auto paf = kj::newPromiseAndFulfiller<SurveyServer::Message>();
    reads.add(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  });

  ~SurveyServerTest() noexcept override {}

  kj::Promise<kj::String> ask() {
    return client.surveyRequest().send().then(
        [](auto&& answer) { return kj::str(answer.getSurvey().getVersion()); });
  }
  void answer(size_t read, kj::StringPtr version) {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    message->initRoot<rpc::Survey>().setVersion(version);
    reads[read]->fulfill(kj::mv(message));
  }
};

// Catches: a survey handed out that was begun before it was asked for; one read for each caller.
TEST_F(SurveyServerTest, ThoseWhoAskMeanwhileShareTheNextOne) {
  auto first = ask();
  EXPECT_FALSE(first.poll(scope));
  auto second = ask(), third = ask();
  EXPECT_FALSE(second.poll(scope));
  EXPECT_EQ(reads.size(), 1u);
  answer(0, "a");
  EXPECT_EQ(first.wait(scope), "a"_kj);
  EXPECT_FALSE(second.poll(scope));
  EXPECT_EQ(reads.size(), 2u);
  answer(1, "b");
  EXPECT_EQ(second.wait(scope), "b"_kj);
  EXPECT_EQ(third.wait(scope), "b"_kj);
  auto fourth = ask();
  EXPECT_FALSE(fourth.poll(scope));
  EXPECT_EQ(reads.size(), 3u);
}

// Catches: a failure that the next one inherits.
TEST_F(SurveyServerTest, AFailureIsOfThoseWhoShareIt) {
  auto first = ask();
  EXPECT_FALSE(first.poll(scope));
  auto second = ask();
  reads[0]->reject(KJ_EXCEPTION(FAILED, "no answer"));
  EXPECT_THROW(first.wait(scope), kj::Exception);
  EXPECT_FALSE(second.poll(scope));
  answer(1, "b");
  EXPECT_EQ(second.wait(scope), "b"_kj);
}

// Catches: a caller that goes and takes the survey of the others with it.
TEST_F(SurveyServerTest, ACallerThatGoesDisturbsNobody) {
  {
    auto gone = ask();
    EXPECT_FALSE(gone.poll(scope));
  }
  auto second = ask();
  EXPECT_FALSE(second.poll(scope));
  answer(0, "a");
  EXPECT_FALSE(second.poll(scope));
  answer(1, "b");
  EXPECT_EQ(second.wait(scope), "b"_kj);
}

// Catches: a survey that failed, and that the log of kubed cannot be searched for; an id of another
// request.
TEST_F(SurveyServerTest, TheLogNamesTheRequest) {
  Rules rules(capnp::Schema::from<rpc::Kubernetes>());
  std::vector<std::string> lines;
  RequestTrace trace(kj::systemCoarseMonotonicClock(), rules,
                     RequestTrace::Keep([&](kj::StringPtr line) { lines.push_back(line.cStr()); }));
  auto kubed = serveKubed(client, trace);
  auto ask = [&](kj::StringPtr id) {
    auto request = kubed.kubernetesRequest();
    request.setRequest(id);
    auto asked = request.send().getKubernetes().surveyRequest().send();
    EXPECT_FALSE(asked.poll(scope));
    reads.back()->reject(KJ_EXCEPTION(DISCONNECTED, "no answer"));
    EXPECT_THROW(asked.wait(scope), kj::Exception);
  };
  ask("mine-1");
  ask("mine-2");
  ask("");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_THAT(lines[0], testing::HasSubstr("method=Kubernetes.survey request=mine-1 "));
  EXPECT_THAT(lines[1], testing::HasSubstr("method=Kubernetes.survey request=mine-2 "));
}

}  // namespace
}  // namespace talos::kubed
