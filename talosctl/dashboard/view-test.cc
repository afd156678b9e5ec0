#include "talosctl/dashboard/view.h"

#include <gtest/gtest.h>

namespace talos::talosctl::dashboard {
namespace {

void type(View& view, kj::StringPtr text, const Extent& extent = {}) {
  for (char c : text) press(view, {Key::kCharacter, char32_t(c)}, extent);
}

TEST(View, ArrowsChooseANodeAndEnterOpensIt) {
  View view;
  Extent extent{.nodes = 3, .lines = 3, .visible = 10, .service = {}};
  for (size_t node : {0, 1, 2}) extent.nodeOfLine.add(node);
  press(view, {Key::kDown}, extent);
  press(view, {Key::kDown}, extent);
  press(view, {Key::kDown}, extent);
  EXPECT_EQ(view.node, 2u);
  press(view, {Key::kUp}, extent);
  press(view, {Key::kEnter}, extent);
  EXPECT_EQ(view.page, Page::kNode);
  EXPECT_EQ(view.node, 1u);
  press(view, {Key::kRight}, extent);
  press(view, {Key::kRight}, extent);
  EXPECT_EQ(view.node, 0u);
  press(view, {Key::kLeft}, extent);
  EXPECT_EQ(view.node, 2u);
  press(view, {Key::kEscape}, extent);
  EXPECT_EQ(view.page, Page::kOverview);
}

// Catches: the number of a line that is taken for the number of a node.
TEST(View, EnterOpensTheNodeOnTheLineThatAFilterLeft) {
  View view;
  Extent extent{.nodes = 3, .lines = 1, .visible = 10, .service = {}};
  extent.nodeOfLine.add(2);
  type(view, "/w");
  press(view, {Key::kEnter}, extent);
  press(view, {Key::kEnter}, extent);
  EXPECT_EQ(view.page, Page::kNode);
  EXPECT_EQ(view.node, 2u);
}

TEST(View, TabGoesThroughPagesAndOnANodeThroughItsPanes) {
  View view;
  press(view, {Key::kBackTab}, {});
  EXPECT_EQ(view.page, Page::kCluster);
  press(view, {Key::kTab}, {});
  EXPECT_EQ(view.page, Page::kOverview);
  type(view, "2");
  press(view, {Key::kBackTab}, {});
  EXPECT_EQ(view.pane, Pane::kKernel);
  press(view, {Key::kTab}, {});
  EXPECT_EQ(view.pane, Pane::kUsage);
}

// Keys that are commands elsewhere are letters of the filter: "q" must not quit.
TEST(View, AFilterTakesLetters) {
  View view;
  type(view, "/qé");
  EXPECT_FALSE(view.quit);
  press(view, {Key::kCharacter, U'é'}, {});
  press(view, {Key::kBackspace}, {});
  EXPECT_TRUE(view.typing);
  press(view, {Key::kEnter}, {});
  EXPECT_FALSE(view.typing);
  EXPECT_TRUE(view.filter.startsWith("q"));
  press(view, {Key::kEscape}, {});
  EXPECT_EQ(view.filter, ""_kj);
  type(view, "q");
  EXPECT_TRUE(view.quit);
}

TEST(View, CtrlCEndsItEverywhere) {
  View view;
  type(view, "/x");
  press(view, {Key::kInterrupt}, {});
  EXPECT_TRUE(view.quit);
}

TEST(View, ALogIsFollowedUntilTheUserGoesUpAndAgainAtItsEnd) {
  View view;
  view.page = Page::kNode, view.pane = Pane::kLog;
  Extent extent{.nodes = 1, .lines = 100, .visible = 10, .service = {}};
  EXPECT_EQ(selectedLine(view, 100, true), 99u);
  press(view, {Key::kPageUp}, extent);
  EXPECT_EQ(selectedLine(view, 200, true), 90u);
  press(view, {Key::kEnd}, extent);
  EXPECT_EQ(selectedLine(view, 200, true), 199u);
}

TEST(View, EnterOnAServiceShowsItsLog) {
  View view;
  view.page = Page::kNode, view.pane = Pane::kServices;
  press(view, {Key::kEnter}, {.nodes = 1, .lines = 1, .visible = 1, .service = kj::str("etcd")});
  EXPECT_EQ(view.pane, Pane::kLog);
  EXPECT_EQ(view.service, "etcd"_kj);
}

TEST(View, TheSelectedLineIsVisible) {
  struct Case {
    size_t selected, lines, visible, first;
  };
  for (auto& c : {Case{0, 100, 10, 0}, Case{50, 100, 10, 45}, Case{99, 100, 10, 90},
                  Case{4, 5, 10, 0}, Case{3, 10, 0, 0}}) {
    EXPECT_EQ(firstVisible(c.selected, c.lines, c.visible), c.first) << c.selected;
  }
}

TEST(View, HelpIsLeftByAnyKey) {
  View view;
  type(view, "?");
  EXPECT_TRUE(view.help);
  type(view, "q");
  EXPECT_FALSE(view.help);
  EXPECT_FALSE(view.quit);
}

}  // namespace
}  // namespace talos::talosctl::dashboard
