#include "talosctl/dashboard/pages.h"

namespace talos::talosctl::dashboard {

namespace {

void drawTitle(Area area, const Frame& frame) {
  auto cluster = frame.shown.cluster;
  size_t at = area.put(
      0, 1, kj::str(cluster.getContext().size() > 0 ? cluster.getContext() : "cluster"_kj));
  at += 2;
  for (auto page : kPages) {
    auto text = kj::str(" ", size_t(page) + 1, " ", titleOf(page), " ");
    if (page == frame.view.page) text = kj::str("[", size_t(page) + 1, " ", titleOf(page), "]");
    at = area.put(0, at, text);
  }
  area.putRight(0, area.columns() - 1, cluster.getTaken());
  area.paint(0, Look::kSelected);
}

void drawKeys(Area area, const Frame& frame) {
  auto row = area.rows() - 1;
  auto& view = frame.view;
  auto problem = frame.shown.cluster.getProblem();
  if (view.typing) {
    auto end = area.put(row, 0, kj::str("/", view.filter));
    area.put(row, end, "█", Look::kAccent);
    area.putRight(row, area.columns(), "Enter keeps the filter, Esc ends it", Look::kDim);
  } else if (problem.size() > 0) {
    area.put(row, 0, problem, Look::kBad);
  } else if (view.filter.size() > 0) {
    area.put(row, 0, kj::str("lines with \"", view.filter, "\"; Esc shows all"), Look::kAccent);
  } else {
    auto keys = view.page == Page::kOverview
                    ? "↑↓ node  Enter open it  Tab page  / filter  ? help  q quit"_kj
                : view.page == Page::kNode
                    ? "Tab pane  ←→ node  ↑↓ line  / filter  Esc all nodes  ? help  q quit"_kj
                    : "↑↓ line  Tab page  / filter  ? help  q quit"_kj;
    area.put(row, 0, keys, Look::kDim);
  }
}

void drawHelp(Area area) {
  struct Line {
    kj::StringPtr keys, effect;
  };
  constexpr Line kLines[] = {
      {"1 2 3 4"_kj, "overview, node, network, cluster"_kj},
      {"Tab, Shift-Tab"_kj, "next page; on the page of a node its next pane"_kj},
      {"← →"_kj, "another node"_kj},
      {"↑ ↓ j k"_kj, "another line; in a log, back and forth"_kj},
      {"PgUp PgDn Home End g G"_kj, "further; at its end a log is followed"_kj},
      {"Enter"_kj, "opens the node; on a service, shows its log"_kj},
      {"/"_kj, "only lines with a text"_kj},
      {"Esc"_kj, "ends the filter; goes back to all nodes"_kj},
      {"c m"_kj, "processes by CPU time or by memory"_kj},
      {"q Ctrl-C"_kj, "ends the dashboard"_kj},
  };
  area.title(0, "Keys", true);
  size_t row = 2;
  for (auto& line : kLines) {
    area.put(row, 2, line.keys, Look::kTitle);
    area.put(row++, 28, line.effect);
  }
  area.put(row + 1, 2, "Any key goes back.", Look::kDim);
}

Extent drawBody(Area area, const Frame& frame) {
  if (frame.shown.cluster.getNodes().size() == 0) {
    area.put(1, 2, "waiting for the first answer", Look::kDim);
    return {};
  }
  switch (frame.view.page) {
    case Page::kOverview:
      return drawOverview(area, frame);
    case Page::kNode:
      return drawNodePage(area, frame);
    case Page::kNetwork:
      return drawNetwork(area, frame);
    case Page::kCluster:
      return drawCluster(area, frame);
  }
  KJ_UNREACHABLE;
}

}  // namespace

Extent drawScreen(Canvas& canvas, const View& view, const Shown& shown) {
  Area area(canvas);
  Frame frame{view, shown};
  constexpr size_t kLeastRows = 6, kLeastColumns = 40;
  if (area.rows() < kLeastRows || area.columns() < kLeastColumns) {
    area.put(0, 0, "the terminal is too small");
    return {};
  }
  drawTitle(area, frame);
  auto body = area.part(1, 0, area.rows() - 2, area.columns());
  Extent extent;
  if (view.help) {
    drawHelp(body);
  } else {
    extent = drawBody(body, frame);
  }
  drawKeys(area, frame);
  return extent;
}

kj::String snapshotText(ShownCluster cluster, size_t columns) {
  kj::Vector<kj::String> parts;
  auto add = [&](size_t rows, auto&& draw) {
    Canvas canvas(rows, columns);
    draw(Area(canvas));
    parts.add(canvas.text());
  };
  auto addSheet = [&](const Sheet& sheet) {
    add(sheet.size() + 1, [&](Area area) { sheet.draw(area, nullptr); });
  };
  if (cluster.getProblem().size() > 0) parts.add(kj::str(cluster.getProblem(), "\n"));
  addSheet(overviewSheet(cluster));
  kj::Vector<kj::String> problems;
  for (auto node : cluster.getNodes()) {
    for (auto& problem : problemsOf(node)) problems.add(kj::str(nameOf(node), ": ", problem));
  }
  if (problems.size() > 0) {
    add(problems.size(), [&](Area area) {
      for (auto i : kj::indices(problems)) area.put(i, 0, problems[i]);
    });
  }
  addSheet(linkSheet(cluster));
  parts.add(clusterLines(cluster, columns, "").text());
  View view;
  Shown shown{cluster};
  for (auto node : cluster.getNodes()) {
    if (node.getError().size() > 0) continue;
    for (auto pane : {Pane::kUsage, Pane::kServices, Pane::kDisks, Pane::kCertificates}) {
      constexpr size_t kMost = 60;
      add(kMost, [&](Area area) {
        area.title(0, kj::str(nameOf(node), ": ", titleOf(pane)));
        drawPane(area.below(1), pane, {view, shown}, node, false);
      });
    }
  }
  return kj::strArray(parts, "\n");
}

}  // namespace talos::talosctl::dashboard
