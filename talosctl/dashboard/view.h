// The part of the dashboard that the user sees, and the effect of keys on it. Pure.
#pragma once

#include <kj/string.h>

#include "talosctl/dashboard/keys.h"

namespace talos::talosctl::dashboard {

enum class Page : uint8_t { kOverview, kNode, kNetwork, kCluster };
constexpr Page kPages[] = {Page::kOverview, Page::kNode, Page::kNetwork, Page::kCluster};
kj::StringPtr titleOf(Page page);

// Parts of the page of one node. All that fit are shown; one of them has the keyboard focus.
enum class Pane : uint8_t {
  kUsage,
  kServices,
  kProcesses,
  kDisks,
  kLinks,
  kGroups,
  kContainers,
  kCertificates,
  kEvents,
  kLog,
  kKernel,
};
constexpr size_t kPaneCount = 11;
kj::StringPtr titleOf(Pane pane);
// Returns true for a log, whose newest line is at the end and is shown unless the user has scrolled
// up.
bool isLog(Pane pane);

enum class ProcessOrder : uint8_t { kCpu, kMemory };

struct View {
  Page page = Page::kOverview;
  Pane pane = Pane::kUsage;
  size_t node = 0;  // index among the nodes
  // Selected line; nullptr: the first line, or the last line of a log.
  kj::Maybe<size_t> line = nullptr;
  kj::String filter;                         // shows only lines with this text, ignoring case
  kj::String service = kj::str("machined");  // service of the log
  ProcessOrder order = ProcessOrder::kCpu;
  bool typing = false;  // the user types the filter
  bool help = false;
  bool quit = false;
};

// The number of choices when the view was last drawn.
struct Extent {
  size_t nodes = 0;
  size_t lines = 0;    // lines of the part with the keyboard focus
  size_t visible = 1;  // lines visible at once
  kj::String service;  // service on the selected line; empty: no service
  // Nodes on the lines of the overview, some of which a filter hides.
  kj::Vector<size_t> nodeOfLine = {};
};

void press(View& view, Press press, const Extent& extent);

// Returns the selected line among `lines`, and the first line to show so that it is visible.
size_t selectedLine(const View& view, size_t lines, bool newestLast);
size_t firstVisible(size_t selected, size_t lines, size_t visible);

}  // namespace talos::talosctl::dashboard
