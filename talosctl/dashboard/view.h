// The part of the dashboard that the user sees, and how keys change it. Pure.
#pragma once

#include <kj/string.h>

#include "talosctl/dashboard/keys.h"

namespace talos::talosctl::dashboard {

enum class Page : uint8_t { kOverview, kNode, kNetwork, kCluster };
constexpr Page kPages[] = {Page::kOverview, Page::kNode, Page::kNetwork, Page::kCluster};
kj::StringPtr titleOf(Page page);

// Parts of the page of one node. Several are shown when there is room; one has the keys.
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
// Its newest line is at the end, and is shown unless the user has gone up.
bool isLog(Pane pane);

enum class ProcessOrder : uint8_t { kCpu, kMemory };

struct View {
  Page page = Page::kOverview;
  Pane pane = Pane::kUsage;
  size_t node = 0;                   // index among the nodes
  kj::Maybe<size_t> line = nullptr;  // the selected one; none: the first, or of a log the last
  kj::String filter;                 // only lines with this text, without regard to case
  kj::String service = kj::str("machined");  // of the log
  ProcessOrder order = ProcessOrder::kCpu;
  bool typing = false;  // the filter
  bool help = false;
  bool quit = false;
};

// How much there was to choose from when it was drawn last.
struct Extent {
  size_t nodes = 0;
  size_t lines = 0;                    // of what has the keys
  size_t visible = 1;                  // of these at once
  kj::String service;                  // on the selected line; empty: none is
  kj::Vector<size_t> nodeOfLine = {};  // of the overview, where a filter leaves some out
};

void press(View& view, Press press, const Extent& extent);

// The selected line of so many, and the first one that is shown so that it is visible.
size_t selectedLine(const View& view, size_t lines, bool newestLast);
size_t firstVisible(size_t selected, size_t lines, size_t visible);

}  // namespace talos::talosctl::dashboard
