// Documents of routing rules, and of routes of no link: RoutingRuleConfig and BlackholeRouteConfig.

#include <linux/rtnetlink.h>

#include <algorithm>

#include "common/config/documents/document-reader.h"
#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

constexpr auto kRules = "machine.network.routingRules"_kj, kRoutes = "machine.network.routes"_kj;
constexpr uint32_t kBlackholeMetric = 1024;
constexpr uint32_t kLargestTable = 252;  // of those without a name
// The kernel's rules, and the one of KubeSpan.
constexpr uint32_t kReserved[] = {0, 32500, 32766, 32767};

kj::Maybe<uint32_t> decimal(kj::StringPtr text) {
  for (char c : text) {
    if (c < '0' || c > '9') return nullptr;
  }
  return text.tryParseAs<uint32_t>();
}

}  // namespace

kj::Maybe<uint32_t> routingTable(kj::StringPtr text) {
  struct Named {
    kj::StringPtr name, number;
    uint32_t table;
  };
  constexpr Named kNamed[] = {{""_kj, "unspec"_kj, RT_TABLE_UNSPEC},
                              {"default"_kj, "253"_kj, RT_TABLE_DEFAULT},
                              {"main"_kj, "254"_kj, RT_TABLE_MAIN},
                              {"local"_kj, "255"_kj, RT_TABLE_LOCAL}};
  for (auto& one : kNamed) {
    if (text == one.name || text == one.number) return one.table;
  }
  KJ_IF_MAYBE (number, decimal(text)) {
    if (*number >= 1 && *number <= kLargestTable) return *number;
  }
  return nullptr;
}

RoutingDocuments::RoutingDocuments(DocumentDecoder& decoder, Config::Builder view)
    : decoder(decoder),
      view(view),
      rules(view.asReader().getMachine().getNetwork().getRoutingRules().size()),
      routes(view.asReader().getMachine().getNetwork().getRoutes().size()) {}

void RoutingDocuments::dropSince(Mark mark) {
  rules.keepFirst(mark.rules);
  routes.keepFirst(mark.routes);
}

void RoutingDocuments::write() {
  auto network = view.asReader().getMachine().getNetwork();
  rules.write(network.getRoutingRules(),
              [&](unsigned size) { return view.getMachine().getNetwork().initRoutingRules(size); });
  routes.write(network.getRoutes(),
               [&](unsigned size) { return view.getMachine().getNetwork().initRoutes(size); });
}

void RoutingDocuments::priority(Document& document, kj::StringPtr text, RoutingRule::Builder out) {
  KJ_IF_MAYBE (number, decimal(text)) {
    if (std::ranges::find(kReserved, *number) != std::end(kReserved)) {
      return decoder.report(document, "name",
                            kj::str(*number, " is the priority of a rule of the system"),
                            "use another number");
    }
    auto [other, added] = priorities.emplace(*number, document.label.cStr());
    if (!added) {
      decoder.report(document, "name", kj::str(other->second.c_str(), " has the same priority"),
                     "use another number");
    }
    out.setPriority(*number);
  } else {
    decoder.report(document, "name", kj::str(jsonString(text), " is not a priority"),
                   "use a number, for example 1500");
  }
}

void RoutingDocuments::conditions(Document& document, document::RoutingRuleConfig::Reader rule) {
  int family = AF_UNSPEC;
  const std::pair<kj::StringPtr, kj::StringPtr> networks[] = {{"src"_kj, rule.getSrc()},
                                                              {"dst"_kj, rule.getDst()}};
  for (auto& [key, text] : networks) {
    if (text.size() == 0) continue;
    KJ_IF_MAYBE (prefix, Prefix::parse(text)) {
      bool another = family != AF_UNSPEC && family != prefix->address.family();
      if (another) {
        decoder.report(document, key, kj::str("src and dst are not both IPv4 or both IPv6"),
                       "write a rule for each of them");
      }
      family = prefix->address.family();
    } else {
      decoder.report(document, key, kj::str(jsonString(text), " is not a valid network"),
                     "for example 10.0.0.0/8");
    }
  }
  const std::pair<kj::StringPtr, kj::StringPtr> links[] = {{"iifName"_kj, rule.getIifName()},
                                                           {"oifName"_kj, rule.getOifName()}};
  for (auto& [key, name] : links) {
    if (name.size() == 0 || isLinkName(name)) continue;
    decoder.report(document, key, kj::str(jsonString(name), " is not a valid link name"),
                   "use the name of a link");
  }
  if (rule.getFwMask() != 0 && rule.getFwMark() == 0) {
    decoder.report(document, "fwMask", kj::str("a mask has no effect without fwMark"),
                   "set fwMark or remove it");
  }
}

void RoutingDocuments::rule(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::RoutingRuleConfig>(document)) {
    kj::String path;
    auto out = rules.add(kRules, path);
    priority(document, d->getName(), out);
    conditions(document, *d);
    KJ_IF_MAYBE (table, routingTable(d->getTable())) {
      if (*table == RT_TABLE_UNSPEC && d->getAction() == RuleAction::UNICAST) {
        decoder.report(document, "", kj::str("the rule has no table"),
                       "set table, or an action that needs none");
      }
      if (*table != RT_TABLE_UNSPEC && d->getAction() != RuleAction::UNICAST) {
        decoder.report(document, "table",
                       kj::str("this has no effect: packets of this action use no table"),
                       "remove table or action", Problem::Severity::kWarning);
      }
      out.setTable(*table);
    } else {
      decoder.report(document, "table",
                     kj::str(jsonString(d->getTable()), " is not a table of routes"), kTableForm);
    }
    out.setSource(d->getSrc());
    out.setDestination(d->getDst());
    out.setAction(d->getAction());
    out.setInLinkName(d->getIifName());
    out.setOutLinkName(d->getOifName());
    out.setFwMark(d->getFwMark());
    out.setFwMask(d->getFwMask());
    decoder.from(document, "", path);
  }
}

void RoutingDocuments::blackhole(Document& document) {
  KJ_IF_MAYBE (d, decoder.decode<document::BlackholeRouteConfig>(document)) {
    if (Prefix::parse(d->getName()) == nullptr) {
      return decoder.report(document, "name",
                            kj::str(jsonString(d->getName()), " is not a valid network"),
                            "for example 10.0.0.0/8");
    }
    kj::String path;
    auto out = routes.add(kRoutes, path);
    out.setNetwork(d->getName());
    out.setMetric(d->getMetric() == 0 ? kBlackholeMetric : d->getMetric());
    out.setType(RouteType::BLACKHOLE);
    decoder.from(document, "", path);
    decoder.from(document, "name", kj::str(path, ".network"));
  }
}

}  // namespace talos::config
