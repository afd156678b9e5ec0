#include "talosctl/dashboard/keys.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <kj/string.h>

#include <string>

namespace talos::talosctl::dashboard {
namespace {

void expectKeys(kj::Vector<Press> got, std::initializer_list<Press> expected) {
  ASSERT_EQ(got.size(), expected.size());
  size_t at = 0;
  for (auto& one : expected) EXPECT_TRUE(got[at++] == one);
}

TEST(Keys, OfXtermAndTheConsole) {
  Keyboard keyboard;
  expectKeys(
      keyboard.press("\x1b[A\x1bOB\x1b[C\x1b[D\x1b[5~\x1b[6~\x1b[1~\x1b[F\x1b[Z\t\r\x7f q"_kj),
      {{Key::kUp},
       {Key::kDown},
       {Key::kRight},
       {Key::kLeft},
       {Key::kPageUp},
       {Key::kPageDown},
       {Key::kHome},
       {Key::kEnd},
       {Key::kBackTab},
       {Key::kTab},
       {Key::kEnter},
       {Key::kBackspace},
       {Key::kCharacter, ' '},
       {Key::kCharacter, 'q'}});
}

// A slow line delivers a sequence byte by byte: an arrow must not be ESC and two letters.
TEST(Keys, SequencesMayComeInPieces) {
  Keyboard keyboard;
  expectKeys(keyboard.press("\x1b"_kj), {});
  expectKeys(keyboard.press("["_kj), {});
  expectKeys(keyboard.press("A"_kj), {{Key::kUp}});
  expectKeys(keyboard.press("\xc3"_kj), {});
  expectKeys(keyboard.press("\xa9"_kj), {{Key::kCharacter, U'é'}});
}

TEST(Keys, ALoneEscapeIsAKeyAfterAPause) {
  Keyboard keyboard;
  expectKeys(keyboard.press("\x1b"_kj), {});
  expectKeys(keyboard.pause(), {{Key::kEscape}});
  expectKeys(keyboard.pause(), {});
  expectKeys(keyboard.press("\x1bq"_kj), {{Key::kEscape}, {Key::kCharacter, 'q'}});
}

TEST(Keys, UnknownSequencesAndBrokenBytesHaveNoEffect) {
  Keyboard keyboard;
  expectKeys(keyboard.press("\x1b[20;5R\x1b[15~\xff\x01z"_kj), {{Key::kCharacter, 'z'}});
}

// Catches: a buffer that grows as long as a sequence has no end.
TEST(Keys, ASequenceWithoutAnEndIsForgotten) {
  Keyboard keyboard;
  expectKeys(keyboard.press(kj::str("\x1b[", kj::repeat('1', 100000))), {});
  expectKeys(keyboard.press("q"_kj), {{Key::kCharacter, 'q'}});
}

struct KeyQueueTest : public testing::Test {
  ~KeyQueueTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::Maybe<kj::Own<kj::PromiseFulfiller<kj::Array<char>>>> read;
  KeyQueue queue{[this]() {
    auto paf = kj::newPromiseAndFulfiller<kj::Array<char>>();
    read = kj::mv(paf.fulfiller);
    return kj::mv(paf.promise);
  }};

  void type(kj::StringPtr keys) {
    scope.poll();
    KJ_ASSERT_NONNULL(read)->fulfill(kj::heapArray<char>(keys.asArray()));
  }
  std::string take(kj::Promise<void> pause = kj::NEVER_DONE) {
    auto taken = queue.take(kj::mv(pause)).wait(scope);
    return {taken.begin(), taken.size()};
  }
};

// Catches: a key that was read at the moment when a pause ended, and dropped with the read.
TEST_F(KeyQueueTest, NoKeyIsLostWhenAPauseEndsFirst) {
  auto pause = kj::newPromiseAndFulfiller<void>();
  auto taking = queue.take(kj::mv(pause.promise));
  scope.poll();
  pause.fulfiller->fulfill();
  KJ_ASSERT_NONNULL(read)->fulfill(kj::heapArray<char>("\t"_kj.asArray()));
  auto taken = taking.wait(scope);
  std::string all(taken.begin(), taken.size());
  all += take(kj::READY_NOW);
  EXPECT_EQ(all, "\t");
}

TEST_F(KeyQueueTest, KeysWaitForWhoTakesThem) {
  type("a");
  type("bc");
  scope.poll();
  EXPECT_EQ(take(), "abc");
  EXPECT_EQ(take(kj::READY_NOW), "");
  auto taking = queue.take(kj::NEVER_DONE);
  EXPECT_FALSE(taking.poll(scope));
  type("d");
  EXPECT_EQ(taking.wait(scope).size(), 1u);
}

// Catches: a dashboard that continues without a terminal.
TEST_F(KeyQueueTest, TheEndOfTheKeyboardIsTheEnd) {
  auto taking = queue.take(kj::NEVER_DONE);
  scope.poll();
  KJ_ASSERT_NONNULL(read)->reject(KJ_EXCEPTION(FAILED, "the terminal is gone"));
  auto failure = kj::runCatchingExceptions([&]() { taking.wait(scope); });
  EXPECT_EQ(KJ_ASSERT_NONNULL(failure).getDescription(), "the terminal is gone"_kj);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
