#include "talosctl/dashboard/keys.h"

#include <gtest/gtest.h>
#include <kj/string.h>

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

}  // namespace
}  // namespace talos::talosctl::dashboard
