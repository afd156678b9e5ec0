#include "apid/metrics/kernel-metrics.h"
#include "common/base/lines.h"
#include "common/text/fields.h"

namespace talos::metrics {
namespace {

constexpr size_t kMostLinks = 1024;

// The columns of /proc/net/dev after the name.
struct LinkRow {
  kj::StringPtr name, help;
};
constexpr LinkRow kLinkRows[] = {
    {"node_network_receive_bytes_total"_kj, "Bytes that were received"_kj},
    {"node_network_receive_packets_total"_kj, "Packets that were received"_kj},
    {"node_network_receive_errs_total"_kj, "Packets that were received with errors"_kj},
    {"node_network_receive_drop_total"_kj, "Packets that were received and dropped"_kj},
    {"node_network_receive_fifo_total"_kj, "Overruns of the receive queue"_kj},
    {"node_network_receive_frame_total"_kj, "Frames with errors of alignment"_kj},
    {"node_network_receive_compressed_total"_kj, "Compressed packets that were received"_kj},
    {"node_network_receive_multicast_total"_kj, "Multicast packets that were received"_kj},
    {"node_network_transmit_bytes_total"_kj, "Bytes that were sent"_kj},
    {"node_network_transmit_packets_total"_kj, "Packets that were sent"_kj},
    {"node_network_transmit_errs_total"_kj, "Packets that could not be sent"_kj},
    {"node_network_transmit_drop_total"_kj, "Packets that were dropped before they were sent"_kj},
    {"node_network_transmit_fifo_total"_kj, "Overruns of the transmit queue"_kj},
    {"node_network_transmit_colls_total"_kj, "Collisions"_kj},
    {"node_network_transmit_carrier_total"_kj, "Packets that were lost with the carrier"_kj},
    {"node_network_transmit_compressed_total"_kj, "Compressed packets that were sent"_kj},
};
constexpr size_t kLinkFields = kj::size(kLinkRows);

struct Link {
  kj::String name;
  uint64_t values[kLinkFields];
};

kj::Vector<Link> linksIn(FileText dev) {
  kj::Vector<Link> links;
  for (auto line : Lines(dev)) {
    KJ_IF_MAYBE (named, namedFields(line)) {
      if (links.size() >= kMostLinks) break;
      Link link{.name = kj::heapString(named->name), .values = {}};
      bool whole = link.name.size() > 0;
      for (auto& value : link.values) {
        auto field = named->fields.next();
        whole = whole && field.size() > 0;
        value = numberIn<uint64_t>(field);
      }
      if (whole) links.add(kj::mv(link));
    }
  }
  return links;
}

// Parses "TCP: inuse 27 orphan 0 …".
kj::Maybe<uint64_t> socketsOf(FileText sockstat, kj::StringPtr protocol, kj::StringPtr key) {
  for (auto line : Lines(sockstat)) {
    Fields fields(line);
    if (fields.next() != protocol.asArray()) continue;
    for (auto name = fields.next(); name.size() > 0; name = fields.next()) {
      auto value = fields.next();
      if (name == key.asArray()) return numberIn<uint64_t>(value);
    }
  }
  return nullptr;
}

struct SocketRow {
  kj::StringPtr protocol, key, name, help;
};
constexpr SocketRow kSocketRows[] = {
    {"sockets:"_kj, "used"_kj, "node_sockstat_sockets_used"_kj, "Sockets"_kj},
    {"TCP:"_kj, "inuse"_kj, "node_sockstat_TCP_inuse"_kj, "TCP sockets in use"_kj},
    {"TCP:"_kj, "orphan"_kj, "node_sockstat_TCP_orphan"_kj, "TCP sockets without a process"_kj},
    {"TCP:"_kj, "tw"_kj, "node_sockstat_TCP_tw"_kj, "TCP sockets in TIME-WAIT"_kj},
    {"TCP:"_kj, "alloc"_kj, "node_sockstat_TCP_alloc"_kj, "TCP sockets with memory"_kj},
    {"TCP:"_kj, "mem"_kj, "node_sockstat_TCP_mem"_kj, "Pages of TCP buffers"_kj},
    {"UDP:"_kj, "inuse"_kj, "node_sockstat_UDP_inuse"_kj, "UDP sockets in use"_kj},
};

// Parses pairs of lines: "Tcp: RtoAlgorithm RtoMin …", "Tcp: 1 200 …".
kj::Maybe<FileText> protocolCounter(FileText text, kj::StringPtr protocol, kj::StringPtr key) {
  kj::Maybe<FileText> names;
  for (auto line : Lines(text)) {
    Fields fields(line);
    if (fields.next() != protocol.asArray()) continue;
    KJ_IF_MAYBE (heading, names) {
      Fields titles(*heading);
      titles.next();
      for (auto title = titles.next(); title.size() > 0; title = titles.next()) {
        auto value = fields.next();
        if (title == key.asArray() && value.size() > 0) return value;
      }
      return nullptr;
    }
    names = line;
  }
  return nullptr;
}

struct ProtocolRow {
  kj::StringPtr protocol, key, name, help;
};
constexpr ProtocolRow kProtocolRows[] = {
    {"Tcp:"_kj, "CurrEstab"_kj, "node_netstat_Tcp_CurrEstab"_kj, "Established connections"_kj},
    {"Tcp:"_kj, "ActiveOpens"_kj, "node_netstat_Tcp_ActiveOpens"_kj, "Connections to others"_kj},
    {"Tcp:"_kj, "PassiveOpens"_kj, "node_netstat_Tcp_PassiveOpens"_kj, "Connections of others"_kj},
    {"Tcp:"_kj, "InSegs"_kj, "node_netstat_Tcp_InSegs"_kj, "Segments that were received"_kj},
    {"Tcp:"_kj, "OutSegs"_kj, "node_netstat_Tcp_OutSegs"_kj, "Segments that were sent"_kj},
    {"Tcp:"_kj, "RetransSegs"_kj, "node_netstat_Tcp_RetransSegs"_kj,
     "Segments that were sent again"_kj},
    {"Tcp:"_kj, "InErrs"_kj, "node_netstat_Tcp_InErrs"_kj, "Segments with errors"_kj},
    {"Tcp:"_kj, "OutRsts"_kj, "node_netstat_Tcp_OutRsts"_kj, "Resets that were sent"_kj},
    {"Udp:"_kj, "InDatagrams"_kj, "node_netstat_Udp_InDatagrams"_kj, "Datagrams received"_kj},
    {"Udp:"_kj, "OutDatagrams"_kj, "node_netstat_Udp_OutDatagrams"_kj, "Datagrams sent"_kj},
    {"Udp:"_kj, "NoPorts"_kj, "node_netstat_Udp_NoPorts"_kj, "Datagrams for no socket"_kj},
    {"Udp:"_kj, "InErrors"_kj, "node_netstat_Udp_InErrors"_kj, "Datagrams with errors"_kj},
    {"Udp:"_kj, "RcvbufErrors"_kj, "node_netstat_Udp_RcvbufErrors"_kj,
     "Datagrams that a receive buffer had no room for"_kj},
    {"TcpExt:"_kj, "ListenOverflows"_kj, "node_netstat_TcpExt_ListenOverflows"_kj,
     "Connections that found a full queue"_kj},
    {"TcpExt:"_kj, "ListenDrops"_kj, "node_netstat_TcpExt_ListenDrops"_kj,
     "Connections that were dropped while they were made"_kj},
    {"TcpExt:"_kj, "TCPTimeouts"_kj, "node_netstat_TcpExt_TCPTimeouts"_kj, "Timeouts of TCP"_kj},
};

kj::Maybe<FileText> firstField(FileText text) {
  for (auto line : Lines(text)) {
    auto field = Fields(line).next();
    if (field.size() > 0) return field;
  }
  return nullptr;
}

}  // namespace

void writeNetworkDevices(MetricsText& out, FileText dev) {
  auto links = linksIn(dev);
  for (auto i : kj::indices(kLinkRows)) {
    out.family(kLinkRows[i].name, Type::kCounter, kLinkRows[i].help);
    for (auto& link : links) out.add({{"device", link.name}}, link.values[i]);
  }
}

void writeSockets(MetricsText& out, FileText sockstat) {
  for (auto& row : kSocketRows) {
    KJ_IF_MAYBE (value, socketsOf(sockstat, row.protocol, row.key)) {
      out.family(row.name, Type::kGauge, row.help);
      out.add(*value);
    }
  }
}

void writeProtocols(MetricsText& out, FileText snmp, FileText netstat) {
  for (auto& row : kProtocolRows) {
    auto value = protocolCounter(snmp, row.protocol, row.key);
    if (value == nullptr) value = protocolCounter(netstat, row.protocol, row.key);
    KJ_IF_MAYBE (found, value) {
      out.family(row.name, Type::kUntyped, row.help);
      out.add(numberIn<uint64_t>(*found));
    }
  }
}

void writeConnections(MetricsText& out, FileText count, FileText most) {
  KJ_IF_MAYBE (entries, firstField(count)) {
    out.family("node_nf_conntrack_entries", Type::kGauge, "Connections that the kernel tracks");
    out.add(numberIn<uint64_t>(*entries));
  }
  KJ_IF_MAYBE (limit, firstField(most)) {
    out.family("node_nf_conntrack_entries_limit", Type::kGauge,
               "Connections that the kernel can track");
    out.add(numberIn<uint64_t>(*limit));
  }
}

}  // namespace talos::metrics
