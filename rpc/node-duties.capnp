@0xb7d3f0a6c4921e58;
# The duties of a node before an upgrade, stored on STATE: the system on trial has to fulfil them
# (machined/upgrade/node-duties.h). Both systems read this record.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");

struct NodeDuties {
  fulfilled @0 :List(Text);        # names of duties
  failing @1 :List(Text);          # names of duties that failed before: the new system need not fulfil them
  upgrade @2 :Int64;               # ns since 1970: as UpgradeRecord.began
}
