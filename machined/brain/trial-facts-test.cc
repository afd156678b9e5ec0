#include "machined/brain/trial-facts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

using Answer = ApiAnswer;

TrialFacts factsWithNode(const char* problem, bool registered = true) {
  TrialFacts facts;
  facts.scope.known = true;
  facts.scope.registered = registered;
  if (problem != nullptr) {
    Duty node{kj::str(kNodeDuty)};
    if (problem[0] != '\0') node.problem = kj::str(problem);
    facts.duties.add(kj::mv(node));
  }
  return facts;
}

}  // namespace

// Catches: a node that is blamed for servers that are away, or that keeps a gateway, a name server
// or an endpoint with which it reaches none.
TEST(TrialFacts, WhoseFailureItIsThatTheApiIsMissed) {
  constexpr auto kApi = "Kubernetes at lb:6443: the connection was closed",
                 kUnknown = "Kubernetes at lb:6443: cannot get nodes/b: Unauthorized",
                 kForbidden =
                     "Kubernetes at lb:6443: cannot get nodes/b: nodes \"b\" is forbidden: "
                     "User \"system:node:a\" cannot get resource \"nodes\"";
  struct {
    const char* name;
    const char* problem;  // "": Ready; nullptr: no Node is known
    Answer answer;
    kj::Maybe<Answer> before;
    bool ownNetwork;
    bool fails, elsewhere;
  } rows[] = {
      {"all is well", "", Answer::kAccepted, nullptr, true, false, false},
      {"not Ready", "not Ready", Answer::kAccepted, nullptr, false, true, false},
      {"a sysctl, others away", "", Answer::kSilent, nullptr, false, true, true},
      {"a sysctl, DNS away", "", Answer::kUnresolved, nullptr, false, true, true},
      {"a sysctl, the API ended", "not Ready", Answer::kRefused, nullptr, false, true, true},
      {"a sysctl, a balancer without servers", kApi, Answer::kAccepted, nullptr, false, true, true},
      {"a client that is unknown", kUnknown, Answer::kAccepted, nullptr, false, true, false},
      {"another name", kForbidden, Answer::kAccepted, nullptr, false, true, false},
      {"a wrong gateway", "", Answer::kSilent, nullptr, true, true, false},
      {"a wrong name server", "", Answer::kUnresolved, nullptr, true, true, false},
      {"a new address, the API ended", "", Answer::kRefused, nullptr, true, true, true},
      {"a wrong endpoint", "", Answer::kRefused, Answer::kAccepted, true, true, false},
      {"a new endpoint, the API ended", "", Answer::kSilent, Answer::kRefused, true, true, true},
      {"no Node yet, others away", nullptr, Answer::kSilent, nullptr, false, true, true},
      {"no Node yet", nullptr, Answer::kAccepted, nullptr, false, true, false},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.name);
    auto facts = factsWithNode(row.problem);
    ApiView view{.answer = row.answer, .ownNetwork = row.ownNetwork};
    KJ_IF_MAYBE (before, row.before) view.answerBefore = *before;
    judgeNode(facts, view);
    ASSERT_EQ(1u, facts.duties.size());
    EXPECT_EQ(row.fails, facts.duties[0].problem != nullptr);
    EXPECT_EQ(row.elsewhere, facts.duties[0].causedElsewhere);
  }
  auto unregistered = factsWithNode(nullptr, false);
  judgeNode(unregistered, {});
  EXPECT_TRUE(unregistered.duties.empty());
}

// Catches: a harmful change of the only control plane that stays on trial for ever, because its
// own API server refuses, does not answer, or is missed by a balancer; another control plane that
// is blamed for it.
TEST(TrialFacts, ANodeWhoseOwnApiServerFailsBlamesNoOthers) {
  constexpr auto kApi = "Kubernetes at lb:6443: the connection was closed";
  struct {
    const char* name;
    bool wantsApi;
    const char* ownApi;  // "": ready; nullptr: not reported
    bool lost;           // too few other voters run
    Answer answer;
    bool elsewhere;
  } rows[] = {
      {"a wrong argument", true, "not ready", false, Answer::kRefused, false},
      {"a shared address that is dropped", true, "not ready", false, Answer::kSilent, false},
      {"a balancer", true, "not ready", false, Answer::kAccepted, false},
      {"never ready since the boot", true, nullptr, false, Answer::kRefused, false},
      {"no majority", true, "not ready", true, Answer::kRefused, true},
      {"no majority since the boot", true, nullptr, true, Answer::kSilent, true},
      {"an endpoint that is down", true, "", false, Answer::kSilent, true},
      {"a worker", false, nullptr, false, Answer::kRefused, true},
  };
  for (auto& row : rows) {
    SCOPED_TRACE(row.name);
    auto facts = factsWithNode(kApi);
    if (row.wantsApi) facts.scope.staticPods.add(kj::str("kube-apiserver"));
    Duty voter{kj::str("voter of etcd")};
    voter.causedElsewhere = row.lost;
    if (row.lost) voter.problem = kj::str("no leader");
    facts.duties.add(kj::mv(voter));
    if (row.ownApi != nullptr) {
      Duty api{kj::str("kube-apiserver")};
      api.causedElsewhere = row.lost;
      if (row.ownApi[0] != '\0') api.problem = kj::str(row.ownApi);
      facts.duties.add(kj::mv(api));
    }
    judgeNode(facts, {.answer = row.answer});
    EXPECT_EQ(row.elsewhere, facts.duties[0].causedElsewhere);
  }
}

// Catches: a look that takes as long as a server that is off, although another one accepts.
TEST(TrialFacts, OneServerThatAcceptsIsEnough) {
  auto io = kj::setupAsyncIo();
  auto best = [&](std::vector<Answer> answers, bool oneIsOff) {
    kj::Vector<kj::Promise<Answer>> calls;
    if (oneIsOff) calls.add(kj::Promise<Answer>(kj::NEVER_DONE));
    for (auto answer : answers) calls.add(kj::Promise<Answer>(answer));
    return bestAnswer(kj::mv(calls)).wait(io.waitScope);
  };
  EXPECT_EQ(Answer::kAccepted, best({Answer::kRefused, Answer::kAccepted}, true));
  EXPECT_EQ(Answer::kRefused, best({Answer::kSilent, Answer::kRefused}, false));
  EXPECT_EQ(Answer::kUnresolved, best({}, false));
}

// Catches: a kubelet or an etcd that has no address in the new subnets, runs on with the settings
// from before, and counts as working until the next boot.
TEST(TrialFacts, AServiceThatCannotTakeUpTheConfigFails) {
  auto facts = factsWithNode("");
  facts.duties.add(Duty{kj::str("service kubelet")});
  addMissing(facts.duties, "service kubelet", nullptr);
  EXPECT_TRUE(facts.duties[1].problem == nullptr);
  addMissing(facts.duties, "service kubelet", kj::str("an address"));
  EXPECT_TRUE(facts.duties[0].problem == nullptr);
  EXPECT_EQ("service kubelet waits for an address"_kj, describe(facts.duties[1]));
}

// Catches: a pod that is Ready because it has not ended yet, and confirms its successor; a clock
// that was set, and with which no verdict is ever possible.
TEST(TrialFacts, PodsAreJudgedAMinuteAfterTheirFilesHaveChanged) {
  auto now = kj::UNIX_EPOCH + 1000 * kj::MINUTES;
  EXPECT_TRUE(whyPodsAreEarly(nullptr, now) == nullptr);
  EXPECT_TRUE(whyPodsAreEarly(now - 60 * kj::SECONDS, now) == nullptr);
  EXPECT_TRUE(whyPodsAreEarly(now + 5 * kj::SECONDS, now) == nullptr);
  EXPECT_EQ("the static pods were changed less than a minute ago"_kj,
            KJ_ASSERT_NONNULL(whyPodsAreEarly(now - 59 * kj::SECONDS, now)));
}

// Catches: a refused connection that counts as silence, or silence as a refusal.
TEST(TrialFacts, AConnectionHasThreeAnswers) {
  auto io = kj::setupAsyncIo();
  auto& network = io.provider->getNetwork();
  auto& timer = io.provider->getTimer();
  auto listener = network.parseAddress("127.0.0.1:0").wait(io.waitScope)->listen();
  auto open = kj::str("127.0.0.1:", listener->getPort());
  EXPECT_EQ(Answer::kAccepted, connectToApi(network, timer, kj::str(open)).wait(io.waitScope));
  listener = nullptr;
  EXPECT_EQ(Answer::kRefused, connectToApi(network, timer, kj::str(open)).wait(io.waitScope));
  // A queue that is full does not answer.
  int fd;
  KJ_SYSCALL(fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  kj::AutoCloseFd full(fd);
  struct sockaddr_in address = {};
  socklen_t size = sizeof(address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  KJ_SYSCALL(bind(full, reinterpret_cast<struct sockaddr*>(&address), size));
  KJ_SYSCALL(listen(full, 0));
  KJ_SYSCALL(getsockname(full, reinterpret_cast<struct sockaddr*>(&address), &size));
  auto silent = kj::str("127.0.0.1:", ntohs(address.sin_port));
  auto last = Answer::kAccepted;
  for (int i = 0; i < 8 && last == Answer::kAccepted; ++i) {
    last = connectToApi(network, timer, kj::str(silent)).wait(io.waitScope);
  }
  EXPECT_EQ(Answer::kSilent, last);
}

// Catches: a slow fetch that reverts a config, or an image that does not exist and that is waited
// for.
TEST(TrialFacts, AFetchWithoutAnErrorIsWaitedFor) {
  using State = rpc::ServiceState;
  struct Event {
    State state;
    const char* text;
  };
  struct {
    State now;
    std::vector<Event> events;
    bool waits;
  } rows[] = {
      {State::RUNNING, {{State::RUNNING, "Started"}}, false},
      {State::PREPARING, {{State::RUNNING, "Started"}, {State::PREPARING, "Running"}}, true},
      {State::PREPARING,
       {{State::FAILED, "x"}, {State::RUNNING, "Started"}, {State::PREPARING, "Running"}},
       true},
      {State::PREPARING,
       {{State::PREPARING, "cannot pull: not found"},
        {State::FAILED, "not found"},
        {State::PREPARING, "Running"}},
       false},
      {State::PREPARING, {{State::PREPARING, "no such host; retrying in 5 s"}}, false},
      {State::PREPARING, {{State::PREPARING, "Waiting for its certificate"}}, false},
      {State::PREPARING,
       {{State::PREPARING, "Waiting for the name and the addresses of the node"}},
       true},
  };
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto service = message.initRoot<rpc::Service>();
    service.setState(row.now);
    auto events = service.initEvents(static_cast<unsigned>(row.events.size()));
    for (unsigned i = 0; i < events.size(); ++i) {
      events[i].setState(row.events[i].state);
      events[i].setMessage(row.events[i].text);
    }
    EXPECT_EQ(row.waits, awaitsImage(service)) << row.events.back().text;
  }
}

}  // namespace talos::machined
