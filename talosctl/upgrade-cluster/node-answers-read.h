// Converts the answers of nodes to the fields of a survey.
#pragma once

#include "rpc/node.capnp.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/upgrade-cluster/cluster-survey.h"

namespace talos::talosctl {

// Never rejects; ends within the deadline.
kj::Promise<NodeSurvey> surveyNode(kj::Timer& timer, rpc::Node::Client node, kj::String address,
                                   kj::Duration deadline);
EtcdSurvey readMembers(rpc::Etcd::MembersResults::Reader members);
void readAlarms(rpc::Etcd::AlarmsResults::Reader alarms, EtcdSurvey& into);
KubernetesSurvey readSurvey(rpc::Survey::Reader survey);

}  // namespace talos::talosctl
