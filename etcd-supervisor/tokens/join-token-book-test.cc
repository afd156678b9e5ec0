// Join tokens in a model etcd, in the test's own time.
#include "etcd-supervisor/tokens/join-token-book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/base/join-token.h"
#include "common/etcd/test-etcd.h"

namespace talos::supervisor {
namespace {

using ::testing::HasSubstr;
using State = rpc::JoinTokens::Found::State;

constexpr int64_t kStart = 1'800'000'000;

struct Book : ::testing::Test {
  ~Book() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  struct Wall final : kj::Clock {
    int64_t at = kStart;
    kj::Date now() const override { return kj::UNIX_EPOCH + at * kj::SECONDS; }
  } wall;
  etcd::ModelCluster cluster{timer};
  etcd::ModelEtcd etcd{cluster};
  JoinTokenBook book{{.timer = timer,
                      .clock = wall,
                      .member = [this]() -> etcd::Etcd& { return etcd; },
                      .most = 5}};

  template <typename T>
  T finish(kj::Promise<T> promise) {
    auto until = timer.now() + 1 * kj::MINUTES;
    while (!promise.poll(scope)) {
      auto next = timer.nextEvent().orDefault(until);
      KJ_ASSERT(next < until, "nothing came of it in time");
      timer.advanceTo(next);
    }
    return promise.wait(scope);
  }
  template <typename T>
  std::string refusal(kj::Promise<T> promise) {
    auto failure = kj::runCatchingExceptions([&] { finish(kj::mv(promise)); });
    KJ_IF_MAYBE (e, failure) return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e)).cStr();
    return "";
  }
  JoinTokenBook::Made create(kj::StringPtr host = "", uint64_t ttl = 3600) {
    auto made = finish(book.create(host, ttl, "admin"));
    wall.at += 1;  // so that the list has an order
    return made;
  }
  // Returns the state, the key and the host name in the answer to a caller.
  static std::string text(rpc::JoinTokens::Found::Reader found) {
    constexpr const char* kNames[] = {"unknown", "unused", "used", "expired", "revoked"};
    auto state = kNames[static_cast<size_t>(found.getState())];
    return kj::str(state, " ", found.getFingerprint(), " ", found.getHostname()).cStr();
  }
  JoinTokenBook::FillFound into(capnp::MallocMessageBuilder& message, kj::StringPtr token) {
    return [&message, digest = joinTokenDigest(token)](auto record, int64_t now) {
      fillFound(message.initRoot<rpc::JoinTokens::Found>(), record, digest, now);
    };
  }
  std::string find(kj::StringPtr token) {
    capnp::MallocMessageBuilder message;
    finish(book.find(KJ_ASSERT_NONNULL(joinTokenId(token)), into(message, token)));
    return text(message.getRoot<rpc::JoinTokens::Found>());
  }
  kj::Promise<void> spending(JoinTokenBook& by, capnp::MallocMessageBuilder& message,
                             kj::StringPtr token, kj::StringPtr key) {
    return by.spend(KJ_ASSERT_NONNULL(joinTokenId(token)), joinTokenDigest(token), key,
                    "w1 10.0.0.9", into(message, token));
  }
  std::string spend(kj::StringPtr token, kj::StringPtr key) {
    capnp::MallocMessageBuilder message;
    finish(spending(book, message, token, key));
    return text(message.getRoot<rpc::JoinTokens::Found>());
  }
  std::string listed() {
    auto all = finish(book.list());
    capnp::MallocMessageBuilder message;
    std::string lines;
    for (auto& one : all) {
      auto out = message.initRoot<rpc::Etcd::JoinToken>();
      fillToken(out, one.id, one.record.get(), wall.at);
      constexpr const char* kNames[] = {"unused", "used", "expired", "revoked"};
      lines += kj::str(kNames[static_cast<size_t>(out.getState())], " host=", out.getHostname(),
                       " by=", out.getUsedBy(), " key=", out.getFingerprint(), "\n")
                   .cStr();
    }
    return lines;
  }
};

kj::String withSecret(kj::StringPtr token, kj::StringPtr secret) {
  return kj::str(token.slice(0, token.size() - kJoinTokenSecret), secret);
}

// Catches: a secret, or anything that reveals it, in etcd; a token that a worker's config refuses;
// a token that is accepted by its id alone.
TEST_F(Book, HoldsAHashOfTheSecretOnly) {
  auto made = create("W1.Example.org", 60);
  EXPECT_EQ(KJ_ASSERT_NONNULL(joinTokenId(made.token)), made.id);
  EXPECT_EQ(made.ends, kStart + 60);
  auto stored = finish(etcd.range({.keys = {kj::str(), true}}));
  ASSERT_EQ(stored.kvs.size(), 1u);
  auto secret = made.token.slice(made.token.size() - kJoinTokenSecret);
  std::string value(stored.kvs[0].value.begin(), stored.kvs[0].value.size());
  EXPECT_EQ(value.find(secret.cStr()), std::string::npos);
  EXPECT_EQ(stored.kvs[0].key, kj::str(kTokensPrefix, made.id));
  EXPECT_EQ(find(made.token), "unused  w1.example.org");
  EXPECT_EQ(find(withSecret(made.token, "0123456789abcdef")), "unknown  ");
  EXPECT_EQ(spend(withSecret(made.token, "0123456789abcdef"), "k1"), "unknown  ");
  EXPECT_EQ(listed(), "unused host=w1.example.org by= key=\n");
}

// Catches: a token with which two nodes join; an interrupted join that cannot be repeated; a token
// that a node whose certificate has expired cannot use again; a revocation that does not prevent
// this.
TEST_F(Book, IsSpentForOneKey) {
  auto made = create();
  EXPECT_EQ(spend(made.token, "k1"), "used k1 ");
  EXPECT_EQ(spend(made.token, "k1"), "used k1 ");
  EXPECT_EQ(spend(made.token, "k2"), "used k1 ");
  EXPECT_EQ(listed(), "used host= by=w1 10.0.0.9 key=k1\n");
  wall.at += 90 * 24 * 3600;
  EXPECT_EQ(spend(made.token, "k1"), "used k1 ");
  EXPECT_EQ(find(made.token), "used k1 ");
  finish(book.revoke(made.id));
  EXPECT_EQ(spend(made.token, "k1"), "revoked k1 ");
  EXPECT_EQ(listed(), "revoked host= by=w1 10.0.0.9 key=k1\n");
}

// Catches: a snapshot from before a token was spent or revoked that makes the token valid again; an
// unused token in a snapshot with which its finder joins; a token made after the recovery that ends
// with it.
TEST_F(Book, NoneOutlivesARecovery) {
  auto unused = create("", 30 * 24 * 3600), spent = create(), revoked = create();
  auto snapshot = finish(etcd.range({.keys = {kj::str(), true}}));
  EXPECT_EQ(spend(spent.token, "k1"), "used k1 ");
  finish(book.revoke(revoked.id));
  // The store is as it was when the snapshot was taken.
  for (auto& kv : snapshot.kvs) finish(etcd.put({kj::str(kv.key), kj::str(kv.value)}));
  EXPECT_EQ(spend(spent.token, "k2"), "used k2 ") << "the model has restored nothing";
  finish(etcd.put({kj::str(kTokensPrefix, "zzzzzz"), kj::str("damaged")}));
  finish(book.revokeForRecovery(etcd));
  for (auto token : {&unused, &spent, &revoked}) {
    EXPECT_THAT(spend(token->token, "k3"), HasSubstr("revoked")) << token->id.cStr();
  }
  auto all = finish(book.list());
  EXPECT_EQ(all.size(), 3u);
  for (auto& one : all) EXPECT_TRUE(one.record.get().getRecovered());
  auto fresh = create();
  EXPECT_EQ(spend(fresh.token, "k4"), "used k4 ");
}

// Catches: more tokens than one transaction of etcd takes, of which the last stay good; a recovery
// that was cut off among them and is not continued.
TEST_F(Book, ARecoveryEndsEachOfMany) {
  TokenRecord record;
  record.change().setDigest(joinTokenDigest("join-aaaaaa.0123456789abcdef"));
  record.change().setEnds(kStart + 3600);
  for (unsigned i = 0; i < 300; ++i) {
    finish(etcd.put({kj::str(kTokensPrefix, 100000 + i), record.bytes()}));
  }
  etcd.faults.answersLost = true;
  EXPECT_THAT(refusal(book.revokeForRecovery(etcd)), HasSubstr("DeadlineExceeded"));
  etcd.faults = {};
  finish(book.revokeForRecovery(etcd));
  auto all = finish(book.list());
  EXPECT_EQ(all.size(), 300u);
  for (auto& one : all) EXPECT_EQ(one.record.get().getRevokedAt(), kStart) << one.id.cStr();
}

// Catches: a database that was full when the snapshot was taken, whose recovery never ends.
TEST_F(Book, ARecoveryOfAFullDatabaseEndsThem) {
  auto made = create();
  cluster.alarms.push_back({cluster.leader, etcd::Alarm::Type::kNoSpace});
  finish(book.revokeForRecovery(etcd));
  EXPECT_EQ(find(made.token), "unknown  ");
}

// Catches: two control-plane nodes that spend one token at the same moment.
TEST_F(Book, OfTwoKeysAtOnceOneGetsIt) {
  auto made = create();
  etcd::ModelEtcd otherClient(cluster);
  JoinTokenBook other{
      {.timer = timer, .clock = wall, .member = [&]() -> etcd::Etcd& { return otherClient; }}};
  // Both have read the record before one of them writes it.
  etcd.faults.effectAfter = 300 * kj::MILLISECONDS;
  capnp::MallocMessageBuilder one, two;
  auto slow = spending(book, one, made.token, "k1").eagerlyEvaluate(nullptr);
  scope.poll();
  timer.advanceTo(timer.now() + 400 * kj::MILLISECONDS);
  scope.poll();
  EXPECT_EQ(etcd.calls.back(), "txn") << "it has not read the token yet";
  finish(spending(other, two, made.token, "k2"));
  finish(kj::mv(slow));
  EXPECT_EQ(text(two.getRoot<rpc::JoinTokens::Found>()), "used k2 ");
  EXPECT_EQ(text(one.getRoot<rpc::JoinTokens::Found>()), "used k2 ");
}

// Catches: a token that lives longer than it was to, or ends at its last second but one; an answer
// that was lost and costs the node its token.
TEST_F(Book, EndsAndIsRepeatedAfterALostAnswer) {
  auto ended = create("", 60), cut = create();
  wall.at = kStart + 59;
  EXPECT_EQ(find(ended.token), "unused  ");
  wall.at = kStart + 60;
  EXPECT_EQ(find(ended.token), "expired  ");
  EXPECT_EQ(spend(ended.token, "k1"), "expired  ");
  // The write is done, and its answer lost: the read of before was answered.
  capnp::MallocMessageBuilder message;
  etcd.faults.answerAfter = 100 * kj::MILLISECONDS;
  auto lost = spending(book, message, cut.token, "k1").eagerlyEvaluate(nullptr);
  scope.poll();
  etcd.faults.answersLost = true;
  EXPECT_THAT(refusal(kj::mv(lost)), HasSubstr("DeadlineExceeded"));
  etcd.faults = {};
  EXPECT_EQ(spend(cut.token, "k2"), "used k1 ");
  EXPECT_EQ(spend(cut.token, "k1"), "used k1 ");
}

// Catches: an etcd that does not answer and counts as an unknown token; a caller that waits for
// ever; a caller that is refused permanently.
TEST_F(Book, WithoutAnEtcdNobodyIsRefusedForGood) {
  auto made = create();
  etcd.faults.unreachable = true;
  capnp::MallocMessageBuilder message;
  EXPECT_THAT(refusal(book.find(made.id, into(message, made.token))), HasSubstr("Unavailable"));
  EXPECT_THAT(refusal(book.list()), HasSubstr("Unavailable"));
  etcd.faults = {};
  etcd.faults.hanging = true;
  EXPECT_THAT(refusal(book.find(made.id, into(message, made.token))),
              HasSubstr("DeadlineExceeded"));
  etcd.faults = {};
  EXPECT_EQ(find(made.token), "unused  ");
}

// Catches: callers without a token who make etcd busy; one who is answered by a read of before the
// token was made.
TEST_F(Book, ReadsOfManyCallersAreFew) {
  auto made = create();
  etcd.calls.clear();
  kj::Vector<kj::Promise<void>> calls;
  kj::Vector<kj::Own<capnp::MallocMessageBuilder>> messages;
  for (unsigned i = 0; i < 1000; ++i) {
    auto id = kj::str(100000 + i);
    auto& message = *messages.add(kj::heap<capnp::MallocMessageBuilder>());
    calls.add(book.find(id, into(message, made.token)));
  }
  auto later = book.create("", 60, "admin");
  finish(kj::joinPromises(calls.releaseAsArray()));
  EXPECT_LE(etcd.calls.size(), 40u);  // 64 in each, two rounds at most, and the calls of create()
  for (auto& message : messages) {
    EXPECT_EQ(text(message->getRoot<rpc::JoinTokens::Found>()), "unknown  ");
  }
  EXPECT_EQ(find(finish(kj::mv(later)).token), "unused  ");
  EXPECT_EQ(find(made.token), "unused  ");
}

// Catches: a list that grows for ever; a worker that has joined and is forgotten; a limit that is
// used up by tokens that cannot be used any more.
TEST_F(Book, RemembersAsLongAsItIsOfUse) {
  auto used = create(), revoked = create(), unused = create("", 60);
  EXPECT_EQ(spend(used.token, "k1"), "used k1 ");
  finish(book.revoke(revoked.id));
  create();
  create();
  create();  // in place of the one that is revoked
  EXPECT_EQ(find(revoked.token), "unknown  ");
  EXPECT_THAT(refusal(book.create("", 60, "admin")),
              HasSubstr("ResourceExhausted: there are 5 join tokens, at most 5; revoke"));
  wall.at = kStart + 61 + kTokenRemembered;  // `unused` has ended at 62
  EXPECT_EQ(listed(),
            "used host= by=w1 10.0.0.9 key=k1\nexpired host= by= key=\n"
            "expired host= by= key=\nexpired host= by= key=\nexpired host= by= key=\n");
  wall.at += 2 * 3600;
  EXPECT_EQ(listed(), "used host= by=w1 10.0.0.9 key=k1\n");
  create();
  EXPECT_EQ(finish(etcd.range({.keys = {kj::str(kTokensPrefix), true}})).kvs.size(), 2u);
  EXPECT_EQ(find(used.token), "used k1 ");
}

// Catches: an invalid request that takes effect; a revocation of an unknown token that is reported
// as done.
TEST_F(Book, RefusesWhatIsNotValid) {
  for (auto ttl : {0, 59, 30 * 24 * 3600 + 1}) {
    EXPECT_THAT(refusal(book.create("", static_cast<uint64_t>(ttl), "admin")),
                HasSubstr("it must be 1m to 720h"));
  }
  for (auto host : {"a b", "10.0.0.1", "w1.", "-"}) {
    EXPECT_THAT(refusal(book.create(host, 60, "admin")), HasSubstr("is not a valid host name"))
        << host;
  }
  for (auto id : {"abcdef", "", "../../x", "join-abcdef.0123456789abcdef"}) {
    EXPECT_THAT(refusal(book.revoke(id)), HasSubstr("NotFound: there is no join token")) << id;
  }
  EXPECT_EQ(listed(), "");
}

// Catches: a damaged record that admits a worker, or that hides the other records.
TEST_F(Book, ADamagedRecordIsNoToken) {
  auto made = create();
  auto token = "join-aaaaaa.0123456789abcdef"_kj;
  std::string bytes(64, '\0');
  for (auto value : {std::string(), std::string("x"), std::string(8, '\xff'), bytes}) {
    finish(
        etcd.put({kj::str(kTokensPrefix, "aaaaaa"), kj::heapString(value.data(), value.size())}));
    EXPECT_EQ(find(token), "unknown  ");
    EXPECT_EQ(listed(), "unused host= by= key=\n");
    EXPECT_EQ(find(made.token), "unused  ");
  }
  // Each octet of a good one: a text that has no end, a pointer to nowhere.
  auto good = kj::mv(finish(etcd.range({.keys = {kj::str(kTokensPrefix, made.id)}})).kvs[0].value);
  for (auto at : kj::indices(good)) {
    auto bad = kj::heapString(good);
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    finish(etcd.put({kj::str(kTokensPrefix, "aaaaaa"), kj::mv(bad)}));
    EXPECT_EQ(find(token), "unknown  ") << at;
    EXPECT_NE(listed(), "") << at;
    EXPECT_EQ(spend(token, "k1"), "unknown  ") << at;
  }
}

}  // namespace
}  // namespace talos::supervisor
