#include "talosctl/dashboard/view.h"

#include "common/text/plain-text.h"

namespace talos::talosctl::dashboard {

namespace {

constexpr size_t kLongestFilter = 100;

void dropLast(kj::String& text) {
  auto size = text.size();
  while (size > 0 && (text[size - 1] & 0xc0) == 0x80) --size;
  text = kj::heapString(text.slice(0, size > 0 ? size - 1 : 0));
}

// Returns true if the key was for the filter.
bool typeFilter(View& view, Press press) {
  switch (press.key) {
    case Key::kCharacter:
      if (view.filter.size() < kLongestFilter) {
        view.filter = kj::str(view.filter, Utf8(press.character).asPtr());
      }
      break;
    case Key::kBackspace:
      if (view.filter.size() == 0) view.typing = false;
      dropLast(view.filter);
      break;
    case Key::kEnter:
      view.typing = false;
      break;
    case Key::kEscape:
      view.typing = false;
      view.filter = kj::String();
      break;
    default:
      return false;
  }
  view.line = nullptr;
  return true;
}

void go(View& view, Page page) {
  view.page = page;
  view.line = nullptr;
  view.filter = kj::String();
}

void goToPane(View& view, size_t pane) {
  view.pane = Pane(pane % kPaneCount);
  view.line = nullptr;
  view.filter = kj::String();
}

// Selects the node on the selected line of the overview.
void chooseNode(View& view, const Extent& extent) {
  auto& nodes = extent.nodeOfLine;
  if (view.page != Page::kOverview || nodes.size() == 0) return;
  view.node = nodes[selectedLine(view, nodes.size(), false)];
}

void move(View& view, const Extent& extent, int64_t by) {
  if (extent.lines == 0) return;
  bool newestLast = view.page == Page::kNode && isLog(view.pane);
  auto last = int64_t(extent.lines) - 1;
  auto at = int64_t(selectedLine(view, extent.lines, newestLast));
  auto to = kj::max(int64_t(0), kj::min(last, at + by));
  view.line = size_t(to);
  // At its end, a log is followed again.
  if (newestLast && to == last) view.line = nullptr;
  chooseNode(view, extent);
}

void turnTo(View& view, const Extent& extent, bool forward) {
  if (extent.nodes == 0) return;
  view.node = (view.node + (forward ? 1 : extent.nodes - 1)) % extent.nodes;
  view.line = nullptr;
}

void enter(View& view, const Extent& extent) {
  if (view.page == Page::kOverview) {
    chooseNode(view, extent);
    go(view, Page::kNode);
  } else if (view.page == Page::kNode && view.pane == Pane::kServices &&
             extent.service.size() > 0) {
    view.service = kj::str(extent.service);
    goToPane(view, size_t(Pane::kLog));
  }
}

void leave(View& view) {
  if (view.filter.size() > 0) {
    view.filter = kj::String();
  } else {
    go(view, Page::kOverview);
  }
}

void pressCharacter(View& view, char32_t character, const Extent& extent) {
  switch (character) {
    case 'q':
      view.quit = true;
      break;
    case '?':
    case 'h':
      view.help = true;
      break;
    case '/':
      view.typing = true;
      break;
    case '1':
    case '2':
    case '3':
    case '4':
      go(view, kPages[character - '1']);
      break;
    case 'j':
      move(view, extent, 1);
      break;
    case 'k':
      move(view, extent, -1);
      break;
    case 'g':
      move(view, extent, -int64_t(extent.lines));
      break;
    case 'G':
      move(view, extent, int64_t(extent.lines));
      break;
    case 'c':
      view.order = ProcessOrder::kCpu;
      break;
    case 'm':
      view.order = ProcessOrder::kMemory;
      break;
    default:
      break;
  }
}

}  // namespace

kj::StringPtr titleOf(Page page) {
  switch (page) {
    case Page::kOverview:
      return "Overview";
    case Page::kNode:
      return "Node";
    case Page::kNetwork:
      return "Network";
    case Page::kCluster:
      return "Cluster";
  }
  KJ_UNREACHABLE;
}

kj::StringPtr titleOf(Pane pane) {
  constexpr kj::StringPtr kTitles[kPaneCount] = {
      "Usage"_kj,          "Services"_kj,   "Processes"_kj,    "Disks"_kj,  "Links"_kj,
      "Control groups"_kj, "Containers"_kj, "Certificates"_kj, "Events"_kj, "Log"_kj,
      "Kernel"_kj};
  return kTitles[size_t(pane)];
}

bool isLog(Pane pane) {
  return pane == Pane::kEvents || pane == Pane::kLog || pane == Pane::kKernel;
}

void press(View& view, Press press, const Extent& extent) {
  if (press.key == Key::kInterrupt) {
    view.quit = true;
    return;
  }
  if (view.help) {
    view.help = false;
    return;
  }
  if (view.typing && typeFilter(view, press)) return;
  auto page = int64_t(kj::max(extent.visible, size_t(2)) - 1);
  bool node = view.page == Page::kNode;
  switch (press.key) {
    case Key::kCharacter:
      return pressCharacter(view, press.character, extent);
    case Key::kUp:
      return move(view, extent, -1);
    case Key::kDown:
      return move(view, extent, 1);
    case Key::kPageUp:
      return move(view, extent, -page);
    case Key::kPageDown:
      return move(view, extent, page);
    case Key::kHome:
      return move(view, extent, -int64_t(extent.lines));
    case Key::kEnd:
      return move(view, extent, int64_t(extent.lines));
    case Key::kLeft:
      return turnTo(view, extent, false);
    case Key::kRight:
      return turnTo(view, extent, true);
    case Key::kTab:
      return node ? goToPane(view, size_t(view.pane) + 1)
                  : go(view, kPages[(size_t(view.page) + 1) % kj::size(kPages)]);
    case Key::kBackTab:
      return node ? goToPane(view, size_t(view.pane) + kPaneCount - 1)
                  : go(view, kPages[(size_t(view.page) + 3) % kj::size(kPages)]);
    case Key::kEnter:
      return enter(view, extent);
    case Key::kEscape:
      return leave(view);
    default:
      return;
  }
}

size_t selectedLine(const View& view, size_t lines, bool newestLast) {
  if (lines == 0) return 0;
  KJ_IF_MAYBE (line, view.line) return kj::min(*line, lines - 1);
  return newestLast ? lines - 1 : 0;
}

size_t firstVisible(size_t selected, size_t lines, size_t visible) {
  if (lines <= visible || visible == 0) return 0;
  auto half = visible / 2;
  auto first = selected > half ? selected - half : 0;
  return kj::min(first, lines - visible);
}

}  // namespace talos::talosctl::dashboard
