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
  constexpr auto kApi = "Kubernetes at lb:6443: the connection was closed";
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
