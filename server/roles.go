package server

import (
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	pb "github.com/holdfast-inventory/holdfast/proto/holdfast/v1"
	"github.com/holdfast-inventory/holdfast/server/auth"
)

// methodRoles is who may call what. A method that is not here may be called by nobody whose roles are looked at.
func methodRoles() map[string]auth.Roles {
	const (
		checkout = auth.Checkout
		looks    = auth.Checkout | auth.Operator // at what names a buyer
		operator = auth.Operator
		reads    = auth.Operator | auth.Reader // what names none
		all      = auth.Checkout | auth.Operator | auth.Reader
	)
	return map[string]auth.Roles{
		pb.InventoryService_GetAvailability_FullMethodName:      all,
		pb.InventoryService_BatchGetAvailability_FullMethodName: all,
		pb.InventoryService_WatchAvailability_FullMethodName:    all,
		pb.InventoryService_CreateHold_FullMethodName:           checkout,
		pb.InventoryService_BatchCreateHolds_FullMethodName:     checkout,
		pb.InventoryService_GetHold_FullMethodName:              looks,
		pb.InventoryService_ExtendHold_FullMethodName:           checkout,
		pb.InventoryService_ConfirmHold_FullMethodName:          checkout,
		pb.InventoryService_BatchConfirmHolds_FullMethodName:    checkout,
		pb.InventoryService_CancelHold_FullMethodName:           checkout,
		pb.InventoryService_GetSale_FullMethodName:              looks,
		pb.InventoryService_CancelSale_FullMethodName:           checkout,

		pb.AdminService_CreateAllotment_FullMethodName:    operator,
		pb.AdminService_GetAllotment_FullMethodName:       reads,
		pb.AdminService_ListAllotments_FullMethodName:     reads,
		pb.AdminService_UpdateAllotment_FullMethodName:    operator,
		pb.AdminService_AdjustCapacity_FullMethodName:     operator,
		pb.AdminService_ListHolds_FullMethodName:          operator,
		pb.AdminService_ListSales_FullMethodName:          operator,
		pb.AdminService_ReconcileAllotment_FullMethodName: operator,

		// Whoever spreads calls or restarts servers looks at health, and has no credentials.
		healthpb.Health_Check_FullMethodName: auth.Anyone,
		healthpb.Health_List_FullMethodName:  auth.Anyone,
		healthpb.Health_Watch_FullMethodName: auth.Anyone,

		reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName: all,
	}
}
