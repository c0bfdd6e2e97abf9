export type Json = string | number | boolean | null | { [key: string]: Json | undefined } | Json[];

export type Database = {
  "audit_log": {
    Tables: {
      "actions": {
        Row: {
          "code": string;
          "deprecated_at": string | null;
          "description": string;
          "position": number;
          "required": (string)[];
          "required_path": unknown;
          "target": string | null;
          "target_name": string | null;
        };
        ComputedFields: never;
        Insert: {
          "code": string;
          "deprecated_at"?: string | null;
          "description": string;
          "position"?: number;
          "required"?: (string)[];
          "required_path"?: never;
          "target"?: string | null;
          "target_name"?: string | null;
        };
        Update: {
          "code"?: string;
          "deprecated_at"?: string | null;
          "description"?: string;
          "position"?: number;
          "required"?: (string)[];
          "required_path"?: never;
          "target"?: string | null;
          "target_name"?: string | null;
        };
        Relationships: [];
      };
      "audit_entries": {
        Row: {
          "action": string;
          "agent_name": string;
          "created_at": string;
          "data": NonNullable<Json>;
          "id": string;
          "organization_id": string;
          "transaction_id": unknown;
          "user_email": string;
        };
        ComputedFields: never;
        Insert: {
          "action": string;
          "agent_name": string;
          "created_at"?: string;
          "data"?: NonNullable<Json>;
          "id"?: string;
          "organization_id": string;
          "transaction_id"?: unknown;
          "user_email": string;
        };
        Update: {
          "action"?: string;
          "agent_name"?: string;
          "created_at"?: string;
          "data"?: NonNullable<Json>;
          "id"?: string;
          "organization_id"?: string;
          "transaction_id"?: unknown;
          "user_email"?: string;
        };
        Relationships: [];
      };
      "organization_members": {
        Row: {
          "created_at": string;
          "organization_id": string;
          "organization_name": string | null;
          "role": string;
          "user_id": string;
        };
        ComputedFields: never;
        Insert: {
          "created_at"?: string;
          "organization_id": string;
          "organization_name"?: string | null;
          "role"?: string;
          "user_id": string;
        };
        Update: {
          "created_at"?: string;
          "organization_id"?: string;
          "organization_name"?: string | null;
          "role"?: string;
          "user_id"?: string;
        };
        Relationships: [];
      };
      "organizations": {
        Row: {
          "closed_at": string | null;
          "created_at": string;
          "hold_reason": string | null;
          "id": string;
          "keep_days": number | null;
          "leaving_at": string | null;
          "logs_key_events": boolean;
          "platform_id": string;
        };
        ComputedFields: never;
        Insert: {
          "closed_at"?: string | null;
          "created_at"?: string;
          "hold_reason"?: string | null;
          "id": string;
          "keep_days"?: number | null;
          "leaving_at"?: string | null;
          "logs_key_events"?: boolean;
          "platform_id": string;
        };
        Update: {
          "closed_at"?: string | null;
          "created_at"?: string;
          "hold_reason"?: string | null;
          "id"?: string;
          "keep_days"?: number | null;
          "leaving_at"?: string | null;
          "logs_key_events"?: boolean;
          "platform_id"?: string;
        };
        Relationships: [];
      };
    };
    Views: {
      [_ in never]: never;
    };
    Functions: {
      "api_key_usage": {
        Args: { "end_date": string; "organization_id": string; "start_date": string };
        Returns: Json;
      };
      "change_stream": {
        Args: { "change": Json; "organization_id": string; "stream_id": string };
        Returns: Json;
      };
      "create_api_key": {
        Args: {
          "api_key_id"?: string;
          "expires_at"?: string;
          "name": string;
          "organization_id": string;
        };
        Returns: Json;
      };
      "create_stream": { Args: { "organization_id": string; "stream": Json }; Returns: Json };
      "daily_entry_counts": { Args: { "organization_id": string; "query": Json }; Returns: Json };
      "delete_stream": {
        Args: { "organization_id": string; "stream_id": string };
        Returns: undefined;
      };
      "find_persons": { Args: { "organization_id": string; "prefix": string }; Returns: Json };
      "list_actions": { Args: { "organization_id": string }; Returns: Json };
      "list_api_keys": { Args: { "organization_id": string }; Returns: Json };
      "list_organizations": { Args: Record<PropertyKey, never>; Returns: Json };
      "list_seals": { Args: { "organization_id": string; "query": Json }; Returns: Json };
      "list_streams": { Args: { "organization_id": string }; Returns: Json };
      "organization_uuid": { Args: { "id": string }; Returns: string };
      "pause_stream": { Args: { "organization_id": string; "stream_id": string }; Returns: Json };
      "person_left": {
        Args: { "organization_id": string; "person": string; "revoke"?: boolean };
        Returns: Json;
      };
      "public_audit_log": {
        Args: {
          "client_address"?: unknown;
          "query"?: Database["audit_log"]["CompositeTypes"]["page_query"];
          "resource": string;
          "token_hash": string;
        };
        Returns: unknown;
      };
      "read_audit_log": { Args: { "organization_id": string; "query": Json }; Returns: Json };
      "read_entry": {
        Args: { "created_at": string; "id": string; "organization_id": string };
        Returns: string;
      };
      "read_stream": { Args: { "organization_id": string; "stream_id": string }; Returns: Json };
      "record_entries": { Args: { "entries": Json }; Returns: number };
      "resume_stream": {
        Args: { "organization_id": string; "start"?: string; "stream_id": string };
        Returns: Json;
      };
      "retry_stream": {
        Args: { "organization_id": string; "stream_id": string; "test"?: boolean };
        Returns: Json;
      };
      "revoke_api_key": {
        Args: { "api_key_id": string; "organization_id": string };
        Returns: Json;
      };
      "rotate_api_key": {
        Args: {
          "api_key_id": string;
          "organization_id": string;
          "overlap"?: string;
          "successor_id"?: string;
        };
        Returns: Json;
      };
      "settle_batch": {
        Args: {
          "lease": string;
          "limits": Json;
          "organization_id": string;
          "outcome": Json;
          "stream_id": string;
          "wants_more": boolean;
        };
        Returns: Json;
      };
      "take_batch": {
        Args: { "limits": Json; "project_url": string; "with_troubled"?: boolean };
        Returns: Json;
      };
    };
    Enums: {
      [_ in never]: never;
    };
    CompositeTypes: {
      "page_query": {
        "start_date": string | null;
        "end_date": string | null;
        "since": string | null;
        "until": string | null;
        "actions": (string)[] | null;
        "user_email": string | null;
        "page_limit": number | null;
        "page_offset": number | null;
        "newest_first": boolean | null;
        "after": string | null;
        "object": string | null;
        "created_at": string | null;
        "id": string | null;
      };
    };
  };
};

type DatabaseWithoutInternals = Omit<Database, "__InternalSupabase">;

type DefaultSchema = DatabaseWithoutInternals[Extract<keyof Database, "audit_log">];

export type Tables<
  DefaultSchemaTableNameOrOptions extends
    | keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof (
      & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
      & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"]
    )
    : never = never,
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals } ? (
    & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    & DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Views"]
  )[TableName] extends {
    Row: infer R;
  } ? R
  : never
  : DefaultSchemaTableNameOrOptions extends keyof (DefaultSchema["Tables"] & DefaultSchema["Views"])
    ? (DefaultSchema["Tables"] & DefaultSchema["Views"])[DefaultSchemaTableNameOrOptions] extends {
      Row: infer R;
    } ? R
    : never
  : never;

export type TablesInsert<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never,
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends
    {
      Insert: infer I;
    } ? I
  : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Insert: infer I;
    } ? I
    : never
  : never;

export type TablesUpdate<
  DefaultSchemaTableNameOrOptions extends
    | keyof DefaultSchema["Tables"]
    | { schema: keyof DatabaseWithoutInternals },
  TableName extends DefaultSchemaTableNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"]
    : never = never,
> = DefaultSchemaTableNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaTableNameOrOptions["schema"]]["Tables"][TableName] extends
    {
      Update: infer U;
    } ? U
  : never
  : DefaultSchemaTableNameOrOptions extends keyof DefaultSchema["Tables"]
    ? DefaultSchema["Tables"][DefaultSchemaTableNameOrOptions] extends {
      Update: infer U;
    } ? U
    : never
  : never;

export type Enums<
  DefaultSchemaEnumNameOrOptions extends
    | keyof DefaultSchema["Enums"]
    | { schema: keyof DatabaseWithoutInternals },
  EnumName extends DefaultSchemaEnumNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"]
    : never = never,
> = DefaultSchemaEnumNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[DefaultSchemaEnumNameOrOptions["schema"]]["Enums"][EnumName]
  : DefaultSchemaEnumNameOrOptions extends keyof DefaultSchema["Enums"]
    ? DefaultSchema["Enums"][DefaultSchemaEnumNameOrOptions]
  : never;

export type CompositeTypes<
  PublicCompositeTypeNameOrOptions extends
    | keyof DefaultSchema["CompositeTypes"]
    | { schema: keyof DatabaseWithoutInternals },
  CompositeTypeName extends PublicCompositeTypeNameOrOptions extends {
    schema: keyof DatabaseWithoutInternals;
  } ? keyof DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"]
    : never = never,
> = PublicCompositeTypeNameOrOptions extends { schema: keyof DatabaseWithoutInternals }
  ? DatabaseWithoutInternals[PublicCompositeTypeNameOrOptions["schema"]]["CompositeTypes"][
    CompositeTypeName
  ]
  : PublicCompositeTypeNameOrOptions extends keyof DefaultSchema["CompositeTypes"]
    ? DefaultSchema["CompositeTypes"][PublicCompositeTypeNameOrOptions]
  : never;

export const Constants = {
  "audit_log": {
    Enums: {},
  },
} as const;
